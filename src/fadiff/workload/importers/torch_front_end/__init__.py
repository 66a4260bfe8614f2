"""PyTorch modules as operator graphs, through ``torch.export``.

.. code-block:: text

    program     a module, traced on shapes alone: ATen operators without side effects
    builder     tensors and operators in the making; what is known before the network runs is folded
    macs  vectors  layouts     one short function per ATen operator
    translation                all of them by name, and the walk over the program
    configs     Hugging Face configurations: the module without weights, and inputs to trace it with

Nothing here is imported before it is needed: PyTorch takes seconds to load, and need not be installed.
"""
