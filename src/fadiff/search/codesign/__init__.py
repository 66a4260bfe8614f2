"""The machine as a variable: hardware and schedules searched together, within a space of machines and an area."""

from fadiff.search.codesign.method import CodesignSettings, Design, codesign
from fadiff.search.codesign.question import Question

__all__ = ["CodesignSettings", "Design", "Question", "codesign"]
