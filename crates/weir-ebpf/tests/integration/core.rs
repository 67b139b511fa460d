//! CO-RE: questions that a C program asks about its own types are answered from the types of another C file.
//!
//! Each row is a C expression over the types of [`LOCAL`] and what it must be when the target has those of [`TARGET`].
//! clang compiles both; the answer is what the program returns in the checking interpreter. Where the machine lets
//! libbpf load programs, libbpf's own answers about this kernel are compared with weir's, instruction by instruction.

use crate::corpus;

use std::collections::BTreeMap;
use std::process::Command;

use testkit::{bpf, paths};
use weir_ebpf::btf::Btf;
use weir_ebpf::btf::core::Target;
use weir_ebpf::elf::{self, ObjectFile};
use weir_ebpf::{Insn, pt_regs};
use weir_interp::Environment;
use weir_rt::executable::Frame;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::Limits;

/// The types as the program's author knew them.
const LOCAL: &str = "#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
    struct inner { int x; char name[4]; };
    struct task { int pid; long start; struct inner in; union { int u1; long u2; }; u64 flags; void *next;
                  unsigned int low:3, high:9; int list[8]; signed char tiny; int gone; short grown; u32 shrunk; };
    struct task___old { int gone_by_now; };
    struct task___other { int pid; };
    struct vanished { int x; };
    struct regs { u32 r15; u32 r14; s32 r13; };
    #pragma clang attribute pop
    typedef struct { int a; } handle_t;
    enum state { IDLE = 1, BUSY = 2, LOST = 3 };
    enum state___more { EXTRA___more = 9 };";

/// The types of the system that it runs on: moved, renamed, resized, nested, and some gone.
const TARGET: &str = "struct deep { char name[16]; long pad; int x; };
    struct inner { long before; char name[8]; int x; };
    struct task { char head[24]; struct { long gap; union { long start; int alias; }; }; int pid; struct inner in[2];
                  unsigned long flags; struct task *next; union { struct { long u0; long u2; int u1; }; };
                  long pad:5, low:11; unsigned high:2; int list[2]; signed char tiny; short grown; u64 shrunk; };
    struct regs { u64 r15; u8 r14; s64 r13; };
    typedef struct { long a[5]; } handle_t;
    enum state { ZERO, IDLE, FIRST = 70, BUSY, EXTRA };
    struct task task; struct regs regs; handle_t handle; enum state state; struct deep deep;";

const OFFSET: u32 = 0;
const BYTES: u32 = 1;
const EXISTS: u32 = 2;
const SIGNED: u32 = 3;
const LEFT: u32 = 4;
const RIGHT: u32 = 5;

/// A question about a field: access from a type, what is asked, the answer.
#[rustfmt::skip]
const FIELDS: &[(&str, &str, u32, u64)] = &[
    ("struct task", "pid",     OFFSET, 40),
    ("struct task", "pid",     BYTES,  4),
    ("struct task", "pid",     EXISTS, 1),
    ("struct task", "pid",     SIGNED, 1),
    // Through a struct and a union without names.
    ("struct task", "start",   OFFSET, 32),
    ("struct task", "u2",      OFFSET, 120),
    ("struct task", "u1",      OFFSET, 128),
    // `in` is an array there, so it is another field.
    ("struct task", "in",      EXISTS, 0),
    ("struct task", "in.x",    EXISTS, 0),
    ("struct task", "flags",   OFFSET, 96),
    ("struct task", "flags",   SIGNED, 0),
    ("struct task", "next",    OFFSET, 104),
    ("struct task", "next",    BYTES,  8),
    ("struct task", "gone",    EXISTS, 0),
    ("struct task", "list[1]", OFFSET, 144),
    ("struct task", "list[1]", EXISTS, 1),
    ("struct task", "list[2]", EXISTS, 0),
    ("struct task", "tiny",    OFFSET, 148),
    ("struct task", "tiny",    SIGNED, 1),
    ("struct task", "shrunk",  BYTES,  8),
    ("struct task", "grown",   LEFT,   48),
    ("struct task", "grown",   RIGHT,  48),
    // Eleven bits behind five others of a long at 136.
    ("struct task", "low",     OFFSET, 136),
    ("struct task", "low",     BYTES,  8),
    ("struct task", "low",     LEFT,   48),
    ("struct task", "low",     RIGHT,  53),
    ("struct task", "low",     SIGNED, 1),
    ("struct task", "high",    RIGHT,  62),
    ("struct inner", "x",      OFFSET, 16),
    ("struct inner", "name[3]", OFFSET, 11),
    ("struct task___other", "pid", OFFSET, 40),
    ("struct task___old", "gone_by_now", EXISTS, 0),
    ("struct vanished", "x",   EXISTS, 0),
];

/// A question about a whole type or an enumerator, as a C expression.
#[rustfmt::skip]
const OTHERS: &[(&str, u64)] = &[
    ("__builtin_preserve_type_info(*(struct task *)0, 0)",       1),
    ("__builtin_preserve_type_info(*(struct vanished *)0, 0)",   0),
    ("__builtin_preserve_type_info(*(struct vanished *)0, 1)",   0),
    ("__builtin_preserve_type_info(*(struct inner *)0, 1)",      24),
    ("__builtin_preserve_type_info(*(handle_t *)0, 1)",          40),
    ("__builtin_preserve_enum_value(*(enum state *)IDLE, 0)",    1),
    ("__builtin_preserve_enum_value(*(enum state *)LOST, 0)",    0),
    ("__builtin_preserve_enum_value(*(enum state *)BUSY, 1)",    71),
    ("__builtin_preserve_enum_value(*(enum state___more *)EXTRA___more, 1)", 72),
    // In a branch that is never taken, what is missing harms nobody.
    ("__builtin_preserve_field_info(((struct task *)0)->gone, 2) ? ((struct task *)ctx)->gone : 5", 5),
];

/// A load through r1 whose width follows the target: expression, r0 where registers hold their number × 0x0101…
#[rustfmt::skip]
const LOADS: &[(&str, u64)] = &[
    ("((struct regs *)ctx)->r15", 0x0101_0101_0101_0101),
    ("((struct regs *)ctx)->r14", 0x02),
];

#[test]
fn fields_types_and_enumerators_are_those_of_the_target() {
    let mut wanted = Vec::new();
    let mut functions = String::new();
    let questions = FIELDS.iter().map(|(ty, field, ask, answer)| {
        (format!("__builtin_preserve_field_info((({ty} *)0)->{field}, {ask})"), *answer)
    });
    let others = OTHERS.iter().chain(LOADS).map(|(text, answer)| ((*text).to_owned(), *answer));
    for (index, (expression, answer)) in questions.chain(others).enumerate() {
        functions += &format!("SEC(\"uprobe/q\") u64 q{index}(void *ctx) {{ return {expression}; }}\n");
        wanted.push((expression, answer));
    }
    let Some(file) = for_target("answers", &functions) else { return };
    let mut frame = Frame::default();
    for (index, register) in frame.regs.iter_mut().enumerate() {
        *register = (index as u64 + 1).wrapping_mul(0x0101_0101_0101_0101);
    }
    assert_eq!((pt_regs::BYTES, file.object.programs.len()), (168, wanted.len()));
    for (program, (expression, answer)) in file.object.programs.iter().zip(wanted) {
        let verified = weir_verifier::verify(program, &file.object.maps, &Limits::default());
        let verified = verified.unwrap_or_else(|rejection| panic!("{expression}: {rejection}"));
        let segment = segment();
        let environment = Environment { segment: &segment };
        assert_eq!(weir_interp::run(&verified, &environment, &mut frame), Ok(answer), "{expression}");
    }
}

#[test]
fn subprograms_are_adapted_as_programs_are() {
    let source =
        "static __noinline u64 of(struct task *t) { return __builtin_preserve_field_info(t->flags, 0); }
        SEC(\"uprobe/f\") u64 f(void *ctx) { return of(ctx) + 1; }";
    let Some(file) = for_target("subprogram", source) else { return };
    let verified = weir_verifier::verify(&file.object.programs[0], &[], &Limits::default()).unwrap();
    let segment = segment();
    let answer = weir_interp::run(&verified, &Environment { segment: &segment }, &mut Frame::default());
    assert_eq!(answer, Ok(97));
}

#[test]
fn what_the_target_lacks_may_be_there_but_not_be_reached() {
    let check = |name: &str, expression: &str, asked: &str| {
        let source = format!("SEC(\"uprobe/f\") u64 f(void *ctx) {{ return {expression}; }}");
        let Some(file) = for_target(name, &source) else { return };
        let rejection = weir_verifier::verify(&file.object.programs[0], &[], &Limits::default()).unwrap_err();
        let missing = &file.programs[0].missing;
        let slot = rejection.at.expect("an instruction") as u32;
        let found =
            missing.iter().find(|(at, _)| *at == slot).unwrap_or_else(|| panic!("{name}: {rejection}"));
        assert!(found.1.starts_with(asked), "{name}: {}", found.1);
    };
    check("lacks_field", "((struct task *)ctx)->gone", "byte offset of a field: struct task.gone");
    check("lacks_element", "((struct task *)ctx)->list[7]", "byte offset of a field: struct task.list[7]");
    check(
        "lacks_value",
        "__builtin_preserve_enum_value(*(enum state *)LOST, 1)",
        "value of an enumerator: enum state::LOST",
    );
    // A number with a sign cannot be loaded wider without knowing what it is for.
    check("resized_sign", "((struct regs *)ctx)->r13", "byte offset of a field: struct regs.r13");
}

#[test]
fn hostile_relocations_are_refused_not_followed() {
    let source = "SEC(\"uprobe/f\") u64 f(void *ctx) { return ((struct task *)ctx)->in.name[1]; }";
    let Some((object, target)) = compiled("hostile", source) else { return };
    let target = elf::read_btf(&target).unwrap();
    let target = Target::new(&target);
    // Each byte of the object, each to a few values: read or refused, never a panic or a hang.
    let mut refused = 0;
    for at in 0..object.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = object.clone();
            changed[at] = value;
            refused += u32::from(elf::read_for(&changed, Some(&target)).is_err());
        }
    }
    assert!(refused > 100, "{refused}");
}

/// Loads of this kernel's structs; libbpf says in its log what it made of each relocation.
const OF_THIS_KERNEL: &str = "#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
    struct task_struct { int pid; int tgid; struct task_struct *real_parent; char comm[16]; unsigned long gone_field; };
    struct file_dentry { int x; };
    struct path { void *dentry; };
    struct file { struct path f_path; };
    struct sk_buff { unsigned len; unsigned char pkt_type:3; };
    #pragma clang attribute pop
    #define ASK(field, ask) __builtin_preserve_field_info(field, ask)
    SEC(\"kprobe/f\") u64 f(void *ctx) {
        struct task_struct *t = 0; struct file *file = 0; struct sk_buff *skb = 0;
        return ASK(t->pid, 0) + 2 * ASK(t->comm[3], 0) + 3 * ASK(t->real_parent, 0) + 5 * ASK(t->gone_field, 2)
            + 7 * ASK(file->f_path.dentry, 0) + 11 * ASK(skb->pkt_type, 0) + 13 * ASK(skb->pkt_type, 1)
            + 17 * ASK(skb->pkt_type, 4) + 19 * ASK(skb->pkt_type, 5) + 23 * ASK(skb->len, 3)
            + 29 * __builtin_preserve_type_info(*t, 1) + 31 * __builtin_preserve_type_info(*(struct file_dentry *)0, 0);
    }";

#[test]
fn libbpf_gives_the_same_answers_about_this_kernel() {
    let Some(tool) = bpf::tool() else { return };
    let source = source("this_kernel", OF_THIS_KERNEL);
    let Some(object) = corpus::compile("core", &source, "this_kernel") else { return };
    let Ok(kernel) = std::fs::read("/sys/kernel/btf/vmlinux") else {
        return testkit::skip::skip("kernel-btf", "this kernel has no /sys/kernel/btf/vmlinux");
    };
    let kernel = Btf::parse(&kernel).unwrap();
    let file = elf::read_for(&object, Some(&Target::new(&kernel))).unwrap();
    let path = paths::target().join("bpf-corpus/core/this_kernel.o");
    let pins = format!("/sys/fs/bpf/weir-core-{}", std::process::id());
    let output = Command::new(tool).args(["-d", "prog", "loadall"]).arg(path).arg(&pins).output().unwrap();
    let _ = std::fs::remove_dir_all(&pins);
    let log = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let patched = patched(&log);
    if patched.is_empty() {
        return testkit::skip::skip("bpftool-load", "libbpf said nothing of relocations");
    }
    assert_eq!(patched.len(), 12, "{log}");
    for (slot, value) in patched {
        assert_eq!(number(&file.object.programs[0].insns, slot), value, "instruction {slot}\n{log}");
    }
}

/// `… patched insn #3 (ALU/ALU64) imm 0 -> 2456`: slot and value.
fn patched(log: &str) -> BTreeMap<usize, u64> {
    let lines = log.lines().filter_map(|line| {
        let (slot, rest) = line.split_once("patched insn #")?.1.split_once(' ')?;
        Some((slot.parse().ok()?, rest.rsplit_once("-> ")?.1.trim().parse().ok()?))
    });
    lines.collect()
}

/// The number that a relocated instruction holds.
fn number(insns: &[Insn], slot: usize) -> u64 {
    let insn = insns[slot];
    if insn.is_wide() {
        return u64::from(insns[slot + 1].imm as u32) << 32 | u64::from(insn.imm as u32);
    }
    if insn.class() >= 4 { insn.imm as u64 } else { insn.off as u64 }
}

/// The program `body` over the local types, adapted to the target's; none where clang is not.
fn for_target(name: &str, body: &str) -> Option<ObjectFile> {
    let (object, target) = compiled(name, body)?;
    let target = elf::read_btf(&target).unwrap();
    let file = elf::read_for(&object, Some(&Target::new(&target)));
    Some(file.unwrap_or_else(|error| panic!("{name}: {error}")))
}

fn compiled(name: &str, body: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let object = corpus::compile("core", &source(name, &format!("{LOCAL}\n{body}")), name)?;
    let target = format!("{name}_target");
    let target = corpus::compile("core", &source(&target, TARGET), &target)?;
    Some((object, target))
}

/// Writes a source file; its path.
fn source(name: &str, text: &str) -> String {
    let folder = paths::target().join("bpf-corpus/core");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.c"));
    std::fs::write(
        &path,
        format!("#include \"bpf_helpers.h\"\n{text}\nchar _l[] SEC(\"license\") = \"GPL\";\n"),
    )
    .unwrap();
    path.display().to_string()
}

fn segment() -> Segment {
    let layout = SegmentLayout::plan(&[], 1).unwrap();
    Segment::create_local(layout, &Identity::default()).unwrap()
}
