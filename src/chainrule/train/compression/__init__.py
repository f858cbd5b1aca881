"""Files and folders compressed by trained runs, beside what other compressors make of them."""

from chainrule.train.compression.files import compress_file, decompress_file
from chainrule.train.compression.league import Rival, league

__all__ = ["Rival", "compress_file", "decompress_file", "league"]
