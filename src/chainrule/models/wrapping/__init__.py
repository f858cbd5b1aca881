"""Networks of the user's own as models: any Equinox module, or a class in a file that the user names."""

from chainrule.models.wrapping.files import FromFile, ModelFile
from chainrule.models.wrapping.wrapped import Wrapped, wrap

__all__ = ["FromFile", "ModelFile", "Wrapped", "wrap"]
