"""The headings and words of the report in both languages."""

from __future__ import annotations

from typing import Final

_WORDS: Final[dict[str, tuple[str, str]]] = {
    "title": ("Report on the labs: cluster scheduling", "实验报告：集群调度"),
    "name": ("Name", "姓名"),
    "made": ("Made", "生成时间"),
    "digest": ("Digest", "校验摘要"),
    "check": ("check it with: paictl lab check-report FILE", "校验方法：paictl lab check-report 文件"),
    "environment": ("Environment", "实验环境"),
    "cpu": ("CPU", "CPU（vCPU 数目）"),
    "memory": ("Memory", "内存"),
    "gpu": ("GPUs (model, number)", "GPU（型号，数目）"),
    "no-gpu": ("none; the labs' clusters are embedded", "无；实验集群为嵌入式集群"),
    "os": ("Operating system", "操作系统版本"),
    "python": ("Python", "Python 版本"),
    "paictl": ("Toolkit", "工具版本"),
    "experiment": ("Experiment", "实验"),
    "goal": ("Goal", "目标"),
    "overview": ("Overview", "概览"),
    "passed-of": ("Checks passed", "通过的检查"),
    "answered-of": ("Questions answered", "已回答的问题"),
    "commands": ("What was typed", "输入的命令"),
    "phenomena": ("What was observed", "实验现象"),
    "no-events": ("(nothing has happened in the cluster)", "（集群中没有发生任何事件）"),
    "time": ("Time", "时间"),
    "what": ("Event", "事件"),
    "of": ("Of", "对象"),
    "detail": ("Detail", "详情"),
    "timeline": ("Timeline", "时间线"),
    "checks": ("Checks", "检查"),
    "expected": ("expected", "应为"),
    "observed": ("observed", "实际"),
    "as-expected": ("as expected", "与预期一致"),
    "answers": ("Questions", "思考题"),
    "no-answer": ("(not answered)", "（未回答）"),
    "passed": ("passed", "通过"),
    "failed": ("failed", "未通过"),
    "skipped": ("skipped", "跳过"),
    "later": ("not reached", "未到达"),
    "refused": ("refused", "被拒绝"),
    "played": ("This experiment was played by `paictl lab run`.", "本实验由 `paictl lab run` 演示。"),
    "solved": ("Steps that paictl did", "由 paictl 完成的步骤"),
    "hints": ("Hints used", "使用的提示数"),
    "skipped-steps": ("Steps skipped", "跳过的步骤"),
    "runs-to-end": ("runs to its end", "运行至结束"),
    "still-runs": ("still runs", "仍在运行"),
    "loses": ("runs and loses its devices", "运行后失去设备"),
    "is-stopped": ("runs and is stopped", "运行后被停止"),
    "waits": ("waits", "等待"),
    "legend": ("█ runs · ▒ runs and loses its devices · · waits", "█ 运行 · ▒ 运行后失去设备 · · 等待"),
}  # fmt: skip


def word(key: str, language: str) -> str:
    """A word of the report in a language."""
    return _WORDS[key][language == "zh"]


def labelled(words: str, language: str) -> str:
    """Words with the colon of their language, for something to follow."""
    return f"{words}{'：' if language == 'zh' else ': '}"
