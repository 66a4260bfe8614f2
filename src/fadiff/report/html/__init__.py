"""A schedule as one HTML page that explains itself: everything inlined, works offline, light and dark, on paper too.

Python computes (:mod:`fadiff.analysis` gives the numbers, ``layout`` the picture of the network) and
writes all of it as one JSON value into the page; small plain scripts in `assets` draw it. There is no chart library on
purpose: plotly, the usual one, brings 4.7 MB of script that is slow to start, its charts cannot be read aloud or walked
through by keyboard, and they print poorly. A few hundred lines of SVG do all that is needed here, and do that too.
"""

from fadiff.report.html.page import report_html
from fadiff.report.html.payload import Extras
from fadiff.report.html.summary import Rival

__all__ = ["Extras", "Rival", "report_html"]
