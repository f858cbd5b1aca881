"""Ways of steering samples: towards conditions, through views, known parts and other examples.

A new way is a new file with a `Steering`; the file is the registration.
"""

import importlib
import inspect
import pkgutil

from chainrule.models.diffusion.steering.draw import Draw, Steering


def ways() -> list[type[Steering]]:
    """All ways of steering, in the order in which they are applied.

    >>> [way.name for way in ways()]
    ['guidance', 'views', 'variations', 'inpainting', 'restoration']
    """
    modules = [
        importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)
    ]
    found = {
        thing.name: thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Steering) and not inspect.isabstract(thing)
    }
    return sorted(found.values(), key=lambda way: way.order)


__all__ = ["Draw", "Steering", "ways"]
