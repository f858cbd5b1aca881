"""What can compress: anything that has a code, a model or a run."""

import abc

from chainrule.information.compression.codes import Code


class HasCode(abc.ABC):
    """Knows probabilities of whole examples, or a bound of them, in a form that data can be coded by."""

    @abc.abstractmethod
    def code(self) -> Code:
        """The code of its data; a `CapabilityError` where its settings leave it without one."""


__all__ = ["HasCode"]
