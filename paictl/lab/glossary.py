"""The words of the labs beside those of the textbook, in both languages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from paictl.frozen import frozen
from paictl.lab.manifest import BilingualText


@frozen
class Term:
    """A word here (`en`, `zh`), what the textbook calls it (`textbook`; ``=`` where it says the same), its meaning."""

    en: str
    zh: str
    textbook: str
    means: BilingualText

    def of(self, language: str) -> str:
        """The word in a language."""
        return self.zh if language == "zh" else self.en

    def data(self) -> dict[str, Any]:
        """The term as plain data."""
        return asdict(self)


_TERMS: Final = (
    Term(
        "job",
        "作业",
        "作业 / 任务",
        BilingualText(
            "What is submitted as one file; it consists of task roles and tasks.",
            "以一个文件提交的工作，由若干任务角色和任务组成。",
        ),
    ),
    Term(
        "task",
        "任务",
        "任务 / 实例",
        BilingualText(
            "One copy of a task role: one container, one pod.",
            "任务角色的一个副本：一个容器、一个 pod。教材有时把整个作业也称为任务。",
        ),
    ),
    Term(
        "gang scheduling",
        "组调度",
        "群调度",
        BilingualText(
            "All tasks of a job start together or none does (gangAllocation: true).",
            "作业的所有任务要么同时启动，要么都不启动（gangAllocation: true）。",
        ),
    ),
    Term(
        "incremental scheduling",
        "增量调度",
        "弹性调度",
        BilingualText(
            "Each task starts as soon as there is room for it (gangAllocation: false).",
            "每个任务一有空位就启动（gangAllocation: false）。",
        ),
    ),
    Term(
        "opportunistic job",
        "机会型作业",
        "低优先级任务 (oppo)",
        BilingualText(
            "A job without a guarantee: it uses idle devices of other tenants and gives them back when their owner "
            "needs them.",
            "没有保障的作业：使用任何人空闲的设备，主人来时归还。",
        ),
    ),
    Term(
        "guaranteed job",
        "有保障的作业",
        "test / prod / crit",
        BilingualText(
            "A job that runs within the quota of its virtual cluster.", "在自己虚拟集群的配额之内运行的作业。"
        ),
    ),
    Term(
        "virtual cluster (VC)",
        "虚拟集群（VC）",
        "=",
        BilingualText("A tenant's share of the cluster, promised in cells.", "租户在集群中的一份，以单元的形式承诺。"),
    ),
    Term(
        "VC safety",
        "VC 安全性",
        "安全性 / 隔离",
        BilingualText("A promise can be kept whatever the other tenants do.", "无论其他租户做什么，承诺都能兑现。"),
    ),
    Term(
        "cell",
        "单元",
        "cell",
        BilingualText(
            "Devices that are close to each other: a GPU, a pair, a machine, a rack.",
            "彼此靠近的一组设备：一个 GPU、一对 GPU、一台机器、一个机架。",
        ),
    ),
    Term(
        "chain",
        "单元链",
        "一种 GPU",
        BilingualText(
            "The cell types under one top type; machines of different kinds are in different chains.",
            "同一顶层类型之下的各级单元；不同种类的机器属于不同的链。",
        ),
    ),
    Term(
        "quota, promise",
        "配额、承诺",
        "配额",
        BilingualText("The cells that the configuration promises to a virtual cluster.", "配置承诺给虚拟集群的单元。"),
    ),
    Term(
        "preemption",
        "抢占",
        "抢占",
        BilingualText(
            "A job loses its devices to a more urgent one and starts again later.",
            "作业的设备被更紧急的作业拿走，之后重新开始。",
        ),
    ),
    Term(
        "lazy preemption",
        "惰性抢占",
        "-",
        BilingualText(
            "A job loses its guarantee but keeps its devices until another job needs them.",
            "作业失去保障，但在别人需要之前保留设备。",
        ),
    ),
    Term(
        "pinned cell",
        "固定单元",
        "pinned cell",
        BilingualText(
            "A physical cell that is bound to a virtual cluster for good.", "永久绑定到某个虚拟集群的物理单元。"
        ),
    ),
    Term(
        "buddy allocation",
        "伙伴分配",
        "buddy cell",
        BilingualText(
            "A cell is split only as far as needed, and its parts are merged again when they are free.",
            "单元只在需要时拆分，各部分空闲后重新合并。",
        ),
    ),
    Term(
        "bad, doomed",
        "损坏、注定损坏",
        "-",
        BilingualText(
            "A cell with broken hardware; a promise that only such cells could keep.",
            "含有故障硬件的单元；只能由这样的单元兑现的承诺。",
        ),
    ),
    Term(
        "push, refresh",
        "推送、刷新",
        "push, start / stop",
        BilingualText(
            "A push stores a configuration; a service reads it when it starts or is refreshed.",
            "推送保存配置；服务在启动或刷新时读取它。",
        ),
    ),
    Term(
        "trace",
        "作业轨迹",
        "-",
        BilingualText(
            "A list of jobs with their arrivals and durations, which the simulator plays.",
            "写明各作业何时到来、运行多久的清单，由模拟器重放。",
        ),
    ),
    Term(
        "job completion time (JCT)",
        "作业完成时间（JCT）",
        "-",
        BilingualText("From submission to end: waiting and running.", "从提交到结束的时间，包括等待和运行。"),
    ),
    Term(
        "attained service",
        "已获服务",
        "-",
        BilingualText(
            "GPUs times time that a job has had so far; LAS runs the job with the least first.",
            "作业至今得到的 GPU 数乘以时间；LAS 让最少者优先。",
        ),
    ),
    Term(
        "elastic job",
        "弹性作业",
        "-",
        BilingualText(
            "A job that can run on fewer or more devices, and change that while it runs.",
            "可以使用较少或较多设备、并在运行中改变数量的作业。",
        ),
    ),
    Term(
        "admission",
        "准入、接纳",
        "-",
        BilingualText(
            "A deadline is promised or refused when a job is submitted.", "在作业提交时承诺或拒绝它的截止时间。"
        ),
    ),
    Term(
        "time slicing", "时间片", "-", BilingualText("Jobs take turns on the same devices.", "作业轮流使用相同的设备。")
    ),
    Term(
        "packing",
        "打包",
        "-",
        BilingualText("Jobs run on the same device at the same time.", "作业同时在同一个设备上运行。"),
    ),
    Term(
        "stranded, pooled",
        "搁置、池化",
        "-",
        BilingualText(
            "Free devices that no waiting job can use where they are; a pool uses them over the network.",
            "空闲却因位置不对而没有等待的作业能用的设备；通过网络仍把它们用起来。",
        ),
    ),
)


def read_glossary() -> tuple[Term, ...]:
    """All terms, those first that a class meets first."""
    return _TERMS
