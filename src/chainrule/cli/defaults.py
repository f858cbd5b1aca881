"""Defaults of the command line."""

MODEL = "diffusion"
"""The model that `chainrule train` trains when none is named."""

SAMPLES = 64
"""How many examples `chainrule sample` draws."""

LOG_SECONDS = 5.0
"""Seconds between two progress lines where the output is not a terminal."""

EXAMPLES = """\
Train, sample, score and take apart models on your own data. Try:

  chainrule train                                      digits that appear from noise, in a minute or two
  chainrule train gpt data=novel.txt                   a language model of your own text
  chainrule models ls                                  what there is

All verbs: chainrule --help
"""
"""What `chainrule` alone prints."""

__all__ = ["EXAMPLES", "LOG_SECONDS", "MODEL", "SAMPLES"]
