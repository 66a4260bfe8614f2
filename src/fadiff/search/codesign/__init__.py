"""The machine as a variable: hardware and schedules searched together, within a space of machines and an area."""

from fadiff.search.codesign.method import Design, codesign
from fadiff.search.codesign.question import Question
from fadiff.search.codesign.settings import CodesignSettings

__all__ = ["CodesignSettings", "Design", "Question", "codesign"]
