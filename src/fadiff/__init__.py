"""FADiff: how a neural network runs on a tensor accelerator, and what that costs.

A network and an accelerator, by name or from files:

>>> import fadiff
>>> network = fadiff.load_model("mobilenet_v1")
>>> machine = fadiff.load_machine("gemmini-small")
>>> isinstance(network, fadiff.Workload), isinstance(machine, fadiff.Machine)
(True, True)

A schedule for them, its price, and the rules it breaks (none); ``fadiff.optimize`` finds a better one in seconds:

>>> schedule = fadiff.greedy(network, machine)
>>> fadiff.violations(schedule)
[]
>>> fadiff.evaluate(schedule).cycles > network.macs / machine.peak_macs
True

No schedule of the network on the machine costs less than its bound, whatever the mappings and the groups:

>>> proven = fadiff.bound(schedule, budget_seconds=1)
>>> proven.least.edp_uj_cycles < fadiff.evaluate(schedule).edp_uj_cycles
True

What it costs on other machines of its kind, a thousand of them in one call:

>>> from dataclasses import replace
>>> chips = [replace(machine, mac_pj=0.1 * i) for i in range(1000)]
>>> fadiff.evaluate_on(schedule, chips).energy_pj.argmin()
np.int64(0)

Files of schedules stand on their own, and are checked when they are read:

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = fadiff.save_schedule(f"{folder}/mobilenet.json", schedule)
...     again = fadiff.load_schedule(f"{folder}/mobilenet.json")
>>> again.mappings == schedule.mappings
True

Everything is a value and can be built by hand. A machine is a list of memories and axes, from DRAM to the multipliers;
a mapping has factors for each of them. Here a matrix product of 32 rows, 16 values each in and 8 out, held on chip as a
whole, so that DRAM sees 128 weights, 512 inputs and 256 outputs once:

>>> from fadiff import Dims, Group, Input, Layer, Mapping, Schedule, Workload
>>> product = Layer("product", "mac", Dims(N=32, K=8, C=16), inputs=(Input(None),))
>>> whole = {"cols": Dims(K=8), "rows": Dims(C=16), "registers": Dims(N=32)}
>>> tiling = {"product": Mapping.of(machine, whole)}
>>> by_hand = Schedule(Workload("toy", (product,)), machine, (Group(("product",)),), tiling)
>>> fadiff.evaluate(by_hand).memory_words(0)
896.0

A second product in the same group reads the 256 values on chip, in two trips of a shared loop over rows:

>>> from fadiff import Trips
>>> second = Layer("second", "mac", Dims(N=32, K=4, C=8), inputs=(Input("product"),))
>>> half = {"DRAM": Dims(N=2), "registers": Dims(N=16)}
>>> halves = {
...     "product": Mapping.of(machine, {**half, "cols": Dims(K=8), "rows": Dims(C=16)}),
...     "second": Mapping.of(machine, {**half, "cols": Dims(K=4), "rows": Dims(C=8)}),
... }
>>> both = Group(("product", "second"), Trips(N=2))
>>> fadiff.evaluate(Schedule(Workload("pair", (product, second)), machine, (both,), halves)).memory_words(0)
800.0

An accelerator of your own: energies are pJ per word. From a file it is read by ``load_machine`` (once
``load_hardware``), which fills in the energies that the file leaves out:

>>> from fadiff import Axis, Machine, Memory
>>> dram = Memory("DRAM", "WIO", read_pj=200, write_pj=200, words_per_cycle=8)
>>> buffer = Memory("buffer", "WIO", read_pj=6, write_pj=6, bytes=65536)
>>> chip = Machine("chip", (dram, buffer, Axis("lanes", 16, "KC")), mac_pj=0.5)
>>> fadiff.greedy(Workload("toy", (product,)), chip).machine.peak_macs
16

``Limits`` bar what takes too long, or too much energy. This is the least energy of all schedules that are fast enough:

>>> fast = fadiff.Limits(cycles=400)
>>> fadiff.optimize(Workload("toy", (product,)), chip, objective="energy", limits=fast).best.cycles <= 400
True

Anything between energy and latency can be minimized: a formula, or an ``Objective`` with terms of its own. Here every
cycle leaks 3 pJ, and a ``Charge`` adds 5 pJ for each cycle of computing:

>>> computing = fadiff.Charge("computing", lambda costs, xp: 5 * costs.steps)
>>> leaking = fadiff.Objective(pj_per_cycle=3, charges=(computing,))
>>> leaking
Objective('(energy + 3*latency) * latency + computing')
>>> toy = fadiff.optimize(Workload("toy", (product,)), chip, objective=leaking, method="greedy").best
>>> leaking.point(toy)[0] > toy.energy_pj
True

Schedules from the fastest to the most frugal, none of which is better than another in both; here in no time at all:

>>> front = fadiff.pareto(Workload("toy", (product,)), chip, budget_seconds=0.01)
>>> front.points[0].cycles <= front.points[-1].cycles
True

``Constraints`` say what a schedule must be like. Here the array takes only outputs, and no lanes add up:

>>> asked = fadiff.load_constraints({"mapping": [{"layers": "product", "unroll": {"lanes": "K"}}]})
>>> isinstance(asked, fadiff.Constraints)
True
>>> asked.broken(fadiff.greedy(Workload("toy", (product,)), chip, constraints=asked))
[]

A sweep is a table of many searches, in a folder that it goes on in where it stopped:

>>> plan = {"networks": "mobilenet_v1:size=32", "machines": ["gemmini-large", "gemmini-small"], "methods": "greedy"}
>>> with tempfile.TemporaryDirectory() as folder:
...     [row["machine"] for row in fadiff.sweep(plan, folder)]
['gemmini-large', 'gemmini-small']

Executing the schedule, word by word, checks the price and the results at once:

>>> fadiff.verify(by_hand).holds
True

A network of your own may be a PyTorch module, or the configuration of a Hugging Face model; no weights are read:

>>> import torch
>>> module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 1))
>>> pair = fadiff.from_torch(module, torch.zeros(1, 3, 16, 16), name="pair")
>>> pair.macs
63488
>>> fadiff.from_huggingface({"model_type": "resnet"}).macs
4087136256

What was imported can be kept as a network file, which needs no PyTorch to be read:

>>> with tempfile.TemporaryDirectory() as folder:
...     fadiff.save_workload(f"{folder}/pair.yaml", pair)
...     fadiff.load_model(f"{folder}/pair.yaml") == pair
True

Or it is an ONNX file, whose open dims are given:

>>> from onnx import parser, save
>>> text = "g (float[batch, 3, 16, 16] x, float[8, 3, 3, 3] w) => (float[batch, 8, 14, 14] y) { y = Conv(x, w) }"
>>> with tempfile.TemporaryDirectory() as folder:
...     save(parser.parse_model(f'<ir_version: 9, opset_import: ["": 17]> {text}'), f"{folder}/small.onnx")
...     fadiff.from_onnx(f"{folder}/small.onnx", dims={"batch": 2}).macs
84672

What is wrong with an input is a :class:`FadiffError`, told in one sentence:

>>> fadiff.load_model("resnet19")
Traceback (most recent call last):
    ...
fadiff.workload.layer.WorkloadError: model 'resnet19' is unknown (did you mean resnet18?): ...
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from fadiff.cost import evaluate, evaluate_on, load_schedule, save_schedule
from fadiff.errors import FadiffError
from fadiff.hardware import Axis, Machine, Memory, load_machine
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.schedule.constraints import Constraints
from fadiff.schedule.constraints_file import load_constraints
from fadiff.schedule.rules import violations
from fadiff.workload import Dims, Input, Layer, Workload, load_model, save_workload

if TYPE_CHECKING:
    from fadiff.agreement import verify
    from fadiff.search import Charge, Limits, Objective, greedy, optimize
    from fadiff.search.pareto import pareto
    from fadiff.search.solver.network_bound import bound
    from fadiff.sweeps.folder import sweep
    from fadiff.workload.importers import from_onnx
    from fadiff.workload.importers.torch_models import from_huggingface, from_torch

__version__ = version("fadiff-scheduler")
load_hardware = load_machine
"""The former name."""

__all__ = [
    "Axis",
    "Charge",
    "Constraints",
    "Dims",
    "FadiffError",
    "Group",
    "Input",
    "Layer",
    "Limits",
    "Machine",
    "Mapping",
    "Memory",
    "Objective",
    "Schedule",
    "Trips",
    "Workload",
    "__version__",
    "bound",
    "evaluate",
    "evaluate_on",
    "from_huggingface",
    "from_onnx",
    "from_torch",
    "greedy",
    "load_constraints",
    "load_hardware",
    "load_machine",
    "load_model",
    "load_schedule",
    "optimize",
    "pareto",
    "save_schedule",
    "save_workload",
    "sweep",
    "verify",
    "violations",
]

_LOADED_ON_FIRST_USE = {
    "Charge": "fadiff.search",
    "Limits": "fadiff.search",
    "Objective": "fadiff.search",
    "bound": "fadiff.search.solver.network_bound",
    "from_huggingface": "fadiff.workload.importers.torch_models",
    "from_onnx": "fadiff.workload.importers",
    "from_torch": "fadiff.workload.importers.torch_models",
    "greedy": "fadiff.search",
    "optimize": "fadiff.search",
    "pareto": "fadiff.search.pareto",
    "sweep": "fadiff.sweeps.folder",
    "verify": "fadiff.agreement",
}
"""These bring large libraries with them, which reading and pricing a schedule can do without."""


def __getattr__(name: str) -> object:
    if name in _LOADED_ON_FIRST_USE:
        return getattr(import_module(_LOADED_ON_FIRST_USE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})


def _schedule_html(schedule: Schedule) -> str:
    """What a notebook shows of a schedule: its summary and its graph."""
    from fadiff.report.notebook import schedule_html

    return schedule_html(schedule)


# Schedules do not know reports, which are above them; here, above both, they meet.
Schedule._repr_html_ = _schedule_html  # pyright: ignore[reportAttributeAccessIssue]
