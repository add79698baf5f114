"""tools/sass.py, with a pretended cuobjdump that shows what compilers may make of a kernel."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import sass  # noqa: E402

WIDE = ["LDG.E.128 R4, desc[UR4][R2.64]", "STG.E.128 desc[UR4][R2.64], R4", "EXIT"]
NARROW = ["LDG.E.U16 R4, desc[UR4][R2.64]", "STG.E.U16 desc[UR4][R2.64], R4", "EXIT"]
# The division stands before the jump back to 0x10; the subroutine is at 0x40.
DIVIDES_IN_LOOP = ["MOV R1, R2", "LDG.E.128 R4, desc[UR4][R2.64]", "CALL.REL.NOINC 0x40", "@P0 BRA 0x10", "RET.REL.NODEC R6 0x0"]
DIVIDES_ONCE = ["CALL.REL.NOINC 0x40", "LDG.E.128 R4, desc[UR4][R2.64]", "IADD3 R1, R1, 0x1, RZ", "@P0 BRA 0x10", "RET.REL.NODEC R6 0x0"]
SPILLS = [*WIDE[:1], "STL [R1+0x8], R4", "LDL R4, [R1+0x8]", "STG.E.128 desc[UR4][R2.64], R4"]
TENSOR = ["LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]", "HMMA.16816.F32.BF16 R4, R8, R12, R4", "STG.E desc[UR4][R2.64], R4"]

MANGLED = "_ZN4snug4core9MapKernelIfEEvlPT_"  # void snug::core::MapKernel<float>(long, float*)

CUOBJDUMP = """#!{python}
import sys
code = {code!r}
if sys.argv[1] == "-sass":
    print("\\t\\tFunction : {mangled}")
    for i, one in enumerate(code):
        print(f"        /*{{16 * i:04x}}*/  {{one}} ;   /* 0x00 */")
elif sys.argv[1] == "-res-usage":
    print(" Function {mangled}:")
    print("  REG:{registers} STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:1 TEXTURE:0")
else:
    print("   a   1000   200  0  4   PROGBITS  6  3  5 .text.{mangled}")
    print(" 0x7          0x40           0x5b0     0x22        0   0xa     $__internal_0_$__cuda_sm20_div_u64")
"""


class SassTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        objects = self.folder / "ops/CMakeFiles/snug_ops.dir/math"
        objects.mkdir(parents=True)
        (objects / "elementwise.cu.o").touch()

    def problems(self, code, rules, registers=32):
        tool = self.folder / "cuobjdump"
        tool.write_text(CUOBJDUMP.format(python=sys.executable, code=code, mangled=MANGLED, registers=registers))
        tool.chmod(0o755)
        kernels = sass.read_kernels(str(tool), self.folder, 1)
        self.assertEqual([(kernel.name, kernel.arguments) for kernel in kernels], [("MapKernel", "float")])
        return sass.check(kernels, sass.Rules(rules))

    def test_a_kernel_that_is_as_it_has_to_be(self):
        self.assertEqual(self.problems(WIDE, "MapKernel streaming"), [])
        self.assertEqual(self.problems(TENSOR, "MapKernel tensor_cores"), [])
        self.assertEqual(self.problems(DIVIDES_ONCE, "MapKernel other"), [])
        self.assertEqual(self.problems(NARROW, "MapKernel streaming where=BFloat16"), [])

    def test_what_is_wrong_is_named(self):
        self.assertEqual(self.problems(NARROW, "MapKernel streaming"),
                         ["MapKernel [wide]: none of 1 loads is of 16 bytes: <float>"])
        self.assertEqual(self.problems([WIDE[0], NARROW[1]], "MapKernel streaming"),
                         ["MapKernel [wide]: none of 1 stores is of 16 bytes: <float>"])
        self.assertEqual(self.problems(DIVIDES_IN_LOOP, "MapKernel other"),
                         ["MapKernel [division]: 1 divisions of 64-bit integers in loops: <float>"])
        self.assertIn("MapKernel [spills]: 2 spills", self.problems(SPILLS, "MapKernel streaming")[0])
        self.assertEqual(self.problems(WIDE, "MapKernel tensor_cores"),
                         ["MapKernel [tensor_cores]: no HMMA or HGMMA: <float>"])
        self.assertIn("MapKernel [occupancy]: 512 threads on a processor where 1024 are intended: 128 registers",
                      self.problems(WIDE, "MapKernel streaming", registers=128)[0])

    def test_every_kernel_has_a_line_and_every_line_a_kernel(self):
        found = self.problems(WIDE, "OtherKernel other")
        self.assertIn("MapKernel: has no line in sass_rules.txt", found[0])
        self.assertIn("OtherKernel: stands in sass_rules.txt, but there is no such kernel", found[1])

    def test_an_exception_has_a_reason_and_is_used(self):
        excepted = "MapKernel streaming\nexcept MapKernel wide [float]: its arrays lie apart"
        self.assertEqual(self.problems(NARROW, excepted), [])
        self.assertEqual(self.problems(WIDE, excepted), ["except MapKernel wide: excepts nothing any more"])
        self.assertIn("expected \"except KERNEL RULE", self.problems(NARROW, "MapKernel other\nexcept MapKernel wide")[0])

    def test_without_kernels_or_cuobjdump_it_says_so(self):
        done = subprocess.run([sys.executable, ROOT / "tools/sass.py", self.folder / "none"], capture_output=True,
                              text=True, env={**os.environ, "SNUG_CUOBJDUMP": "/bin/true"}, check=False)
        self.assertEqual((done.returncode, "SKIPPED" in done.stdout), (3, True))


if __name__ == "__main__":
    unittest.main()
