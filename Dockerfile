# The image of everything of paictl's that runs in a cluster, for whoever has docker: the same Python packages (lock file,
# hashes), the same user and entrypoint as `make images` gives, which needs no docker (docs/images.md).
#   docker build -t REGISTRY/paictl:VERSION .
ARG BASE=docker.io/library/debian:trixie-slim
FROM ${BASE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv ca-certificates
WORKDIR /src
COPY requirements/image.lock requirements/
RUN python3 -m venv /opt/paictl && \
    /opt/paictl/bin/pip install --no-cache-dir --no-deps --only-binary=:all: --require-hashes -r requirements/image.lock && \
    rm -r /opt/paictl/lib/python3*/site-packages/kubernetes/aio
COPY pyproject.toml README.md ./
COPY paictl paictl
COPY schemas schemas
COPY labs labs
COPY traces traces
COPY templates templates
COPY locale locale
COPY playbooks playbooks
RUN python3 -m venv /opt/build && /opt/build/bin/pip install --no-cache-dir "hatchling>=1.25" && \
    /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel . && \
    /opt/paictl/bin/pip install --no-deps --no-index /wheel/*.whl && \
    /opt/paictl/bin/pip uninstall -y pip && \
    python3 -m compileall -q --invalidation-mode unchecked-hash /opt/paictl/lib

FROM ${BASE}
RUN apt-get update && \
    apt-get install -y --no-install-recommends python3 ca-certificates media-types netbase openssl && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/paictl /opt/paictl
ENV PATH=/opt/paictl/bin:/usr/local/bin:/usr/bin HOME=/tmp LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /
USER 65532:65532
ENTRYPOINT ["paictl"]
