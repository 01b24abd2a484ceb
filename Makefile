# Every target makes the virtual environment that it needs from the lock file; nothing has to be installed before but
# Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := -m pytest -q -n auto --dist worksteal

.PHONY: demo test docs lint format messages bench kube kube-hosts monitoring images e2e e2e-versions e2e-hosts e2e-devices fidelity bench-doors bench-kube fuzz aims soak mutants example-reports wheel sbom dist verify-dist publish lock test-lowest axe clean help

help:  ## this list
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/' | expand -t 16

demo: $(STAMP)  ## the main job, without a cluster
	@$(BIN)/python tools/demo.py

test: $(STAMP)  ## the whole test suite
	$(BIN)/python $(PYTEST)

AXE := axe-core-4.14.1
AXE_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/paictl/$(AXE)
axe: $(AXE_CACHE)/axe.min.js  ## axe-core for the tests of the portal's accessibility, into a cache outside the tree (once; needs npm)

$(AXE_CACHE)/axe.min.js:
	@mkdir -p $(AXE_CACHE)
	@cd $(AXE_CACHE) && npm pack --silent $(subst core-,core@,$(AXE)) >/dev/null
	@cd $(AXE_CACHE) && sha256sum --quiet -c $(CURDIR)/requirements/axe-core.sha256
	@cd $(AXE_CACHE) && tar xzmf $(AXE).tgz --strip-components=1 package/axe.min.js && rm $(AXE).tgz

lint: $(STAMP) .venv-playbooks/.linted  ## style and types; playbooks only where they have changed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## rewrite the sources in house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

messages: $(STAMP)  ## texts that have no Chinese yet, with their places
	@$(BIN)/python -m tools.messages

bench: $(STAMP)  ## the figures of README and CHANGELOG (those of a real control plane if make kube has been run)
	@$(BIN)/python tools/bench_config.py
	@$(BIN)/python tools/bench_scheduler.py
	@$(BIN)/python tools/bench_sharing.py
	@$(BIN)/python tools/bench_cluster.py
	@$(BIN)/python tools/bench_server.py
	@$(BIN)/python tools/bench_sim.py
	@$(BIN)/python tools/bench_cli.py
	@$(BIN)/python tools/bench_kube.py
	@$(BIN)/python -W ignore::ResourceWarning tools/bench_controller.py
	@$(BIN)/python -W ignore::ResourceWarning tools/bench_server.py --real

kube:  ## build Kubernetes, etcd and kwok into a cache outside the tree (once; KUBE_VERSION=v1.37.1)
	@tools/kube/build.sh

kube-hosts: kube  ## build and pack what the test hosts run; Debian's packages for them (once; minutes)
	@if $(PYTHON) -m tools.hosts check; then nice tools/kube/build.sh hosts && nice $(PYTHON) -m tools.hosts artifacts; fi

e2e: $(STAMP)  ## extender and cluster interface on a real control plane (needs make kube and openssl)
	@PAICTL_E2E=1 $(BIN)/python -W ignore::ResourceWarning -m pytest -q -n 2 --dist loadfile tests/e2e_kube tests/contract \
	  -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning

KUBE_VERSIONS ?= v1.35.4 v1.36.3 v1.37.1
e2e-versions: $(STAMP) kube  ## a short part of it with API server and kube-scheduler of each supported version
	@for version in $(KUBE_VERSIONS); do \
	  echo "== $$version" && KUBE_VERSION=$$version tools/kube/build.sh kube-apiserver kube-scheduler \
	  && KUBE_VERSION=$$version PAICTL_E2E=1 $(BIN)/python -W ignore::ResourceWarning -m pytest -q -m versions tests/e2e_kube \
	    -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning || exit 1; \
	done

images: $(STAMP)  ## our container images as OCI archives, in a cache outside the tree (docs/images.md)
	@$(BIN)/python -m tools.images

e2e-hosts: $(STAMP) kube-hosts  ## deployment on real test hosts (root; docs/test-hosts.md)
	@PAICTL_E2E_HOSTS=1 $(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder tests/e2e_hosts

e2e-devices: $(STAMP) kube-hosts  ## 500 pods through each door on test hosts have just their devices while 60 programs die (root; an hour)
	@nice tools/kube/build.sh dradriver
	@PAICTL_E2E_HOSTS=1 PAICTL_E2E_ALL=1 PAICTL_E2E_PODS=$${PAICTL_E2E_PODS:-500} PAICTL_E2E_KILLS=$${PAICTL_E2E_KILLS:-60} \
	  $(BIN)/python -m pytest -q -s -p no:xdist tests/e2e_hosts/test_devices.py

monitoring: $(STAMP) kube  ## configuration, rules and dashboards put to Prometheus, Alertmanager, node-exporter (builds them once; minutes)
	@nice tools/kube/build.sh monitoring
	@PAICTL_MONITORING=1 $(BIN)/python -W ignore::ResourceWarning -m pytest -q tests/monitoring \
	  -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning

TRACE ?= tenants
fidelity: $(STAMP)  ## a trace through a real control plane and through the simulator, compared (needs make kube; TRACE=tenants, 400 jobs)
	@$(BIN)/python -W ignore::ResourceWarning -m tools.fidelity $(TRACE)

bench-doors: $(STAMP)  ## extender and gates, by environment and by claims, beside kube-scheduler (half an hour); ONLY=gang: 512 pods
	@$(BIN)/python -W ignore::ResourceWarning tools/bench_doors.py $(ONLY)

bench-kube: $(STAMP)  ## the extender's figures, alone and on a real control plane (ten minutes)
	@$(BIN)/python tools/bench_kube.py

fuzz: $(STAMP)  ## 20,000 mutated files, none of which may give a traceback; small inputs that ask for much
	@$(BIN)/python tools/fuzz_config.py --count 20000
	@$(BIN)/python tools/fuzz_sizes.py

aims: $(STAMP)  ## what sharing a cluster shall bring, simulated: waiting of large gangs, shares of a week, work lost to preemption (docs/performance.md)
	@$(BIN)/python -m tools.sim_backfill
	@$(BIN)/python -m tools.sim_share
	@$(BIN)/python -m tools.sim_week

soak: $(STAMP)  ## 2 million random operations on the scheduler core, a million with all abilities on, 200,000 on clusters on this machine, a million on the accounts, 100,000 on promised starts, 500 runs of random commands on clusters
	@$(BIN)/python tools/soak.py
	@$(BIN)/python tools/soak.py --abilities --operations 1000000
	@$(BIN)/python tools/soak.py --fickle --operations 300000
	@$(BIN)/python tools/soak.py --placer --operations 300000
	@$(BIN)/python tools/soak.py --embedded --operations 200000
	@PAICTL_DEFRAG_CASES=1000 $(BIN)/python -m pytest -q tests/unit/scheduler/test_defrag.py
	@PAICTL_SOAK=500 $(BIN)/python -m pytest -q tests/unit/cluster/test_properties.py tests/unit/workload/test_usage.py tests/unit/cluster/test_sharing.py tests/unit/extender/test_sharing.py tests/unit/cluster/test_promised_starts.py tests/unit/workload/test_struck_rooms.py tests/unit/cluster/test_backfill.py tests/unit/extender/test_starts.py

ROOM ?=
mutants: .venv-mutants/.installed  ## single lines broken on purpose, and whether a unit test notices (hours; ROOM=scheduler; docs/mutants.md)
	@test -e build/mutants/times.json || .venv-mutants/bin/python -m tools.mutants map
	@.venv-mutants/bin/python -m tools.mutants run $(ROOM)
	@.venv-mutants/bin/python -m tools.mutants report

example-reports: $(STAMP)  ## reports of all labs, in examples/lab-report
	$(BIN)/python tools/example_report.py

docs: $(STAMP) .venv-docs/.installed  ## the documentation site, in build/site (English and Chinese; every link checked)
	@$(BIN)/python tools/docs_site.py build
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict -q -f build/mkdocs.yml
	@echo "build/site/index.html" >&2

sbom: $(STAMP)  ## what the wheel and the image are made of, from the lock files (CycloneDX, in dist)
	@$(BIN)/python tools/sbom.py

dist: $(STAMP) images  ## wheel, bills of materials and image in dist, with checksums; signed: SIGNING_KEY=FILE (docs/security.md)
	@$(BIN)/python tools/dist.py build
	@test -z "$(SIGNING_KEY)" || $(BIN)/python tools/dist.py sign "$(SIGNING_KEY)"

SIGNERS ?= allowed_signers
verify-dist: $(STAMP)  ## whether all files of dist are as they were signed: SIGNERS=FILE (default: allowed_signers)
	@$(BIN)/python tools/dist.py verify "$(SIGNERS)"

INDEX ?= https://pypi.org/simple/
UPLOAD ?= https://upload.pypi.org/legacy/
publish: $(STAMP) .venv-publish/.installed  ## upload the signed wheel of dist to PyPI: UV_PUBLISH_TOKEN=…, SIGNERS=FILE; another index: INDEX=URL UPLOAD=URL
	@$(BIN)/python tools/dist.py publish "$(SIGNERS)" --index "$(INDEX)" --upload "$(UPLOAD)"

wheel: $(STAMP)  ## trial: the core compiled by mypyc, the same tests on it and what it brings (ten minutes; needs gcc)
	@$(BIN)/python tools/wheel.py
	@$(BIN)/python tools/bench_compiled.py

lock:  ## renew the lock files (needs uv)
	uv pip compile -q pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-header \
	  --upgrade -o requirements/dev.lock
	uv pip compile -q pyproject.toml --extra k8s --extra server --python-version 3.13 --python-platform x86_64-unknown-linux-gnu \
	  --generate-hashes --no-header --no-annotate -c requirements/dev.lock -o requirements/image.lock
	uv pip compile -q pyproject.toml --extra k8s --extra server --extra sim --extra parquet --extra deploy --extra test --universal --python-version 3.11 --generate-hashes \
	  --no-header --upgrade --resolution lowest-direct -o requirements/lowest.lock
	uv pip compile -q requirements/docs.in --universal --python-version 3.11 --generate-hashes --no-header --upgrade \
	  -o requirements/docs.lock
	uv pip compile -q requirements/desk.in --python-version 3.11 --python-platform x86_64-unknown-linux-gnu --only-binary :all: \
	  --no-emit-package jedi --no-emit-package debugpy --generate-hashes --no-header --no-annotate --upgrade -o requirements/desk.lock
	uv pip compile -q requirements/mutants.in -c requirements/dev.lock --universal --python-version 3.11 --generate-hashes \
	  --no-header --upgrade -o requirements/mutants.lock
	uv pip compile -q requirements/publish.in --universal --python-version 3.11 --generate-hashes --no-header --upgrade \
	  -o requirements/publish.lock
	uv pip compile -q requirements/playbooks.in --universal --python-version 3.11 --generate-hashes --no-header \
	  --upgrade -o requirements/playbooks.lock

test-lowest: .venv-lowest/.installed  ## the unit tests with the lowest versions that pyproject.toml allows
	@PAICTL_EXAMPLES=20 .venv-lowest/bin/python $(PYTEST) -m "not slow" tests/unit

$(STAMP): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "paictl needs Python 3.11 or newer: make PYTHON=python3.12")'
	@echo "Setting up $(VENV) from requirements/dev.lock (once, about half a minute) ..." >&2
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv-playbooks/.installed: requirements/playbooks.lock
	@$(PYTHON) -m venv --clear .venv-playbooks
	@.venv-playbooks/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/playbooks.lock
	@touch $@

.venv-playbooks/.linted: .venv-playbooks/.installed $(shell find playbooks -name '*.yml' -o -name '.ansible-lint')
	cd playbooks && PATH=$(CURDIR)/.venv-playbooks/bin:$$PATH ANSIBLE_LIBRARY=$$PWD/library ANSIBLE_ACTION_PLUGINS=$$PWD/action_plugins ansible-lint --offline -q
	@touch $@

.venv-docs/.installed: requirements/docs.lock
	@$(PYTHON) -m venv --clear .venv-docs
	@.venv-docs/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/docs.lock
	@touch $@

.venv-mutants/.installed: requirements/mutants.lock requirements/dev.lock
	@$(PYTHON) -m venv --clear .venv-mutants
	@.venv-mutants/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@.venv-mutants/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/mutants.lock
	@.venv-mutants/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv-publish/.installed: requirements/publish.lock
	@$(PYTHON) -m venv --clear .venv-publish
	@.venv-publish/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/publish.lock
	@touch $@

.venv-lowest/.installed: requirements/lowest.lock
	@$(PYTHON) -m venv --clear .venv-lowest
	@.venv-lowest/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/lowest.lock
	@touch $@

clean:  ## remove what make made
	rm -rf $(VENV) .venv-lowest .venv-mutants .venv-playbooks .venv-docs .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-output build dist
