"""The few words of findings in Chinese."""

from __future__ import annotations

import re
from typing import Final


def in_chinese(words: str) -> str:
    """What the findings say, in Chinese; names, states and messages stay as the commands show them."""
    if _CHOICE.fullmatch(words):
        return words.replace(" or ", " 或 ")
    return "".join(part if part.startswith("“") else _translated(part) for part in re.split("(“[^”]*”)", words))


def _translated(words: str) -> str:
    for english, chinese in _WORDS:
        words = re.sub(english, chinese, words)
    return words


def aspect_in_chinese(aspect: str) -> str:
    """What a finding looks at, in Chinese."""
    return _ASPECTS.get(aspect, aspect)


_ASPECTS: Final = {
    "state": "状态",
    "virtual cluster": "虚拟集群",
    "priority": "优先级",
    "devices": "设备数",
    "preemptions": "被抢占次数",
    "attempt": "第几次尝试",
    "tasks running": "运行中的任务数",
    "remark": "备注",
    "waited": "等待时间",
    "ran": "运行时间",
    "runs on": "运行于",
    "device numbers": "设备编号",
    "nodes": "节点数",
    "happened": "发生",
    "times": "次数",
    "ever at the same time": "是否曾同时运行：",
    "decision": "调度决定",
    "says": "内容",
    "possible change": "可行的改变",
    "running": "是否运行：",
    "ready": "是否就绪：",
    "configuration loaded": "已加载的配置版本",
    "version": "版本",
    "condition": "状况",
    "devices used": "已用设备数",
    "jobs": "作业数",
    "time": "运行了",
    "exit code": "退出码",
    "was refused": "被拒绝，理由",
    "promised devices": "承诺的设备数",
    "shares nodes with": "共用节点：",
}

_CHOICE = re.compile(r"[\w-]+( or [\w-]+)+")

_WORDS: Final = (
    (r"\b([A-Z][a-z]+) job (?=\S)", r"\1 作业 "),
    (r"\b([A-Z][a-z]+) node (?=\S)", r"\1 节点 "),
    (r"\b([A-Z][a-z]+) service (?=\S)", r"\1 服务 "),
    (r"^job ", "作业 "),
    (r"^service ", "服务 "),
    (r"^node ", "节点 "),
    (r"^events$", "事件"),
    (r"^configuration$", "配置"),
    (r"^cluster$", "集群"),
    (r"^command ", "命令 "),
    (r"^virtual cluster ", "虚拟集群 "),
    (r"^jobs ", "作业 "),
    (r" and (?=[a-z][\w-]*$)", " 与 "),
    (r"\bat least ", "至少 "),
    (r"\bat most ", "至多 "),
    (r" and (?=至多)", "，"),
    (r"^nothing$", "（无）"),
    (r"^no such job$", "不存在该作业"),
    (r"^no such node$", "不存在该节点"),
    (r"^no such virtual cluster$", "不存在该虚拟集群"),
    (r"^exists$", "存在"),
    (r"^holds it$", "包含"),
    (r"^does not hold it$", "不包含"),
    (r"^holds ", "包含 "),
    (r"^does not hold ", "不包含 "),
    (r"^within one block of (\d+)$", r"在一个大小为 \1 的对齐块内"),
    (r"^yes$", "是"),
    (r"^no$", "否"),
    (r"^was typed$", "已输入"),
    (r"^not typed yet$", "尚未输入"),
    (r"^not both have run yet$", "尚未两者都运行过"),
    (r"^not refused yet$", "尚未被拒绝"),
    (r", then ", "，然后 "),
    (r"^only ", "只有 "),
    (r" on (?=[a-z])", " 于 "),
)
