//! Scripts as users write them, compiled: what the verifier is for.

use weir_codegen::{Compiled, Options};
use weir_ir::world::{FoundFunction, World, WorldError};
use weir_source::{SourceFile, render};

/// One script a line; together they use every part of the language that this compiler knows.
pub(crate) const SCRIPTS: &[&str] = &[
    "uprobe:libc:malloc { @ = count(); }",
    "uprobe:libc:malloc { @bytes = hist(arg0); @calls = count(); }",
    "uprobe:libc:malloc { @sum = sum(arg0); @avg = avg(arg0); @min = min(arg0); @max = max(arg0); @s = stats(arg0); }",
    "uprobe:libc:malloc { @l = lhist(arg0, 0, 1000, 100); }",
    "uprobe:libc:malloc { @l[comm] = lhist(arg1, -50, 50, 7); @h[tid] = hist(arg2); }",
    "uprobe:libc:malloc { @[tid] = count(); }",
    "uprobe:libc:malloc { @[pid, tid, arg0] = count(); }",
    "uprobe:libc:malloc { @[comm, func] = sum(arg0); }",
    "uprobe:libc:malloc { @[str(arg0)] = count(); }",
    "uprobe:libc:malloc { @[str(arg0), arg1, str(arg2)] = max(arg3); }",
    "uprobe:libc:malloc { printf(\"%d %s %x\\n\", arg0, str(arg1), arg2); }",
    "uprobe:libc:malloc { printf(\"%s %s %d\\n\", comm, probe, tid); }",
    "uprobe:libc:malloc { printf(\"hello\\n\"); }",
    "uprobe:libc:malloc /arg0 > 100/ { @big = count(); }",
    "uprobe:libc:malloc /pid == 1 && arg0 != 0 || arg1 < 5/ { @ = count(); }",
    "uprobe:libc:malloc /comm == \"redis\"/ { @ = count(); }",
    "uprobe:libc:malloc /str(arg0) == \"abc\"/ { @ = count(); }",
    "uprobe:libc:malloc { if (arg0 > 10) { @a = count(); } else if (arg0 == 3) { @b = count(); } else { @c = sum(1); } }",
    "uprobe:libc:malloc { $x = arg0 * 3 + arg1 / 7 - arg2 % 5; if ($x > 100) { $x = 100; } @[$x] = count(); }",
    "uprobe:libc:malloc { $x = (arg0 << 3) ^ (arg1 >> 2) | (arg2 & 0xff); @ = max($x); }",
    "uprobe:libc:malloc { @last[tid] = nsecs; } uprobe:libc:free /@last[tid]/ { @ns = hist(nsecs - @last[tid]); delete(@last[tid]); }",
    "uprobe:libc:malloc { @n++; @m += arg0; @k--; if (@n > 5) { @n = 0; } }",
    "uprobe:libc:malloc { @n[arg0]++; @m[arg0, arg1] += arg2; }",
    "uprobe:libc:malloc { @x[arg0] = arg1; if (@x[arg2] > 3) { delete(@x[arg2]); } }",
    "BEGIN { printf(\"start\\n\"); @t = nsecs; } END { printf(\"%d\\n\", elapsed); clear(@t); }",
    "BEGIN { @ = 1; } interval:s:1 { print(@); zero(@); }",
    "interval:ms:100 { @i++; if (@i > 10) { exit(); } }",
    "uprobe:libc:malloc { @c = count(); } interval:s:1 { print(@c); clear(@c); }",
    "uprobe:libc:malloc,uprobe:libc:free { @[probe] = count(); @f[func] = count(); @cpu[cpu] = count(); }",
    "uprobe:libc:malloc { $s = str(arg0); $n = arg1; if ($n > 0) { printf(\"%s %d\\n\", $s, $n); } @[$s] = sum($n); }",
    "uprobe:libc:malloc { @a = arg0; @b = arg1; @c = arg2; @d = arg3; @e = arg4; @f = arg5; }",
    "uprobe:libc:malloc { $a = arg0; $b = $a == 0 ? 1 : $a; @ = hist($b); @neg = max(-$a); @not = count(); }",
    "uprobe:libc:malloc { @ = hist(arg0); @x[arg1 > 5] = count(); @y[!arg2] = count(); @z[~arg3] = count(); }",
    "uprobe:libc:malloc { if (arg0) { if (arg1) { if (arg2) { @[1] = count(); } @[2] = count(); } @[3] = count(); } }",
    "uprobe:libc:malloc { printf(\"%d %d %d %d %d\\n\", arg0, arg1, arg2, arg3, arg4); exit(); }",
    "uprobe:libc:malloc { $s = 0; for ($i : 0..arg0) { $s += $i; } @ = max($s); }",
    "uprobe:libc:malloc { for ($i : 0..arg0) { for ($j : 0..arg1) { @a = max($i + $j); @x[str(arg1)] = min($j); } @b = min(1); } @c = max(1); }",
];

/// More of them, which call what the kernel does not have.
pub(crate) const SCRIPTS_OF_PROCESSES: &[&str] = &[
    "uprobe:libc:malloc { @n[str(arg0)]++; $s = 0; for ($kv : @n) { if ($kv.0 != \"x\") { $s += $kv.1; } } @ = max($s); @l = max(len(@n)); }",
];

/// Every binary has every function.
struct Everywhere;

impl World for Everywhere {
    fn functions(&self, binary: &str, pattern: &str) -> Result<Vec<FoundFunction>, WorldError> {
        Ok(vec![FoundFunction::plain(&format!("/lib/{binary}"), pattern)])
    }
}

pub(crate) fn compiled(script: &str) -> Compiled {
    compiled_for(script, false)
}

pub(crate) fn compiled_for(script: &str, is_for_kernel: bool) -> Compiled {
    let file = SourceFile { name: "<-e>".into(), text: script.to_owned() };
    let module = match weir_script::compile(&file, &weir_script::Options::default(), &Everywhere) {
        Ok((module, _)) => module,
        Err(faults) => panic!("{}", render(&file, &faults, false)),
    };
    let options = Options { is_for_kernel, ..Options::default() };
    weir_codegen::compile_with(&module, &options).unwrap_or_else(|error| panic!("{script}: {error}"))
}
