"""Students of trained diffusion models, which draw in half the steps."""

from chainrule.models.diffusion.distill.model import DistillConfig, Distilled, adopts, teacher
from chainrule.models.diffusion.distill.teaching import equal_steps, lesson
from chainrule.models.protocol import Entry

entry = Entry(
    name="distill",
    summary="Student of a trained diffusion model, which draws in half the steps; of students again, down to one.",
    config=DistillConfig,
    build=Distilled,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "text", "none"),
    data="moons",
    toy={"student_steps": 2, "body": {"width": 16, "depth": 1}},
    toy_data="moons",
    citation="Salimans and Ho, Progressive distillation for fast sampling of diffusion models, ICLR 2022",
    training={
        "batch": 128,
        "ema": 0.99,
        "optimizer": {"name": "adamw", "lr": 3e-4, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "linear", "warmup": 0},
    },
    adopts=adopts,
    body_of=teacher,
    surrogate_gradient="the teacher, and what it teaches, are taken as given",
)

__all__ = ["DistillConfig", "Distilled", "adopts", "entry", "equal_steps", "lesson", "teacher"]
