"""Machine code from LLVM text, by llvmlite: a few hundredths of a second for a small program."""

from typing import Any


def build(text: str, processor: str, features: str, *, passes: bool = False) -> Any:
    """The program for a processor, in memory for as long as what is returned lives.

    `passes` has LLVM put variables in registers and simplify first, which text written with registers in mind does
    without. (Everything else LLVM could do takes three times as long and makes loops over graphs no faster.)
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(cpu=processor, features=features, opt=3)
    module = llvm.parse_assembly(text)
    module.verify()
    if passes:
        builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options())
        rewriting = llvm.create_new_function_pass_manager()
        rewriting.add_sroa_pass()
        rewriting.add_instruction_combine_pass()
        rewriting.add_simplify_cfg_pass()
        for function in module.functions:
            rewriting.run(function, builder)
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return engine


def build_here(text: str, *, passes: bool = False) -> Any:
    """The program for the processor this runs on."""
    import llvmlite.binding as llvm

    return build(text, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), passes=passes)


__all__ = ["build", "build_here"]
