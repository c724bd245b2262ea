"""Modules that were replaced are known until the collector has found them."""

import gc
from types import ModuleType

from policies.replaced_modules import any_left, note_replaced


def test_a_module_is_left_until_it_is_gone():
    """It refers to itself, as the functions of a module do."""
    module = ModuleType("replaced")
    vars(module)["itself"] = module
    note_replaced(module)
    assert any_left()
    del module
    gc.collect()
    assert not any_left()
