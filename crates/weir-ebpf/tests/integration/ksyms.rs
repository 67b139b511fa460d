//! Externs of the kernel in objects of clang: functions that weir has, weak ones that it has not, and others.

use crate::corpus;

use std::fs;

use testkit::paths;
use weir_ebpf::elf::{self, ElfError, ObjectFile};
use weir_ebpf::{asm, kfunc};
use weir_verifier::{Limits, verify};

const HEADER: &str = "#include \"bpf_helpers.h\"\ntypedef _Bool bool;
    extern bool bpf_session_is_return(void) __ksym;
    extern u64 *bpf_session_cookie(void) __ksym __weak;
    extern u64 bpf_not_here(u64) __ksym __weak;
    extern u64 bpf_nor_here(u64) __ksym;\n";

/// The object of a program; none, loudly, without clang.
fn read(name: &str, body: &str) -> Option<Result<ObjectFile, ElfError>> {
    let folder = paths::target().join("bpf-corpus/ksyms");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.c"));
    let program = format!("{HEADER}SEC(\"uprobe/f\") int f(struct pt_regs *ctx)\n{{\n{body}\n}}\n");
    fs::write(&path, program).unwrap();
    corpus::compile("ksyms", &path.display().to_string(), name).map(|bytes| elf::read(&bytes))
}

/// The text of the program, and the verdict on it.
fn judged(file: &ObjectFile) -> (String, Result<(), String>) {
    let verdict = verify(&file.object.programs[0], &file.object.maps, &Limits::default());
    (asm::print(&file.object), verdict.map(drop).map_err(|rejection| rejection.to_string()))
}

#[test]
fn functions_of_a_session_are_there() {
    let body = "u64 *cookie = bpf_session_cookie(); if (bpf_session_is_return()) return *cookie; *cookie = 5; return 0;";
    let Some(file) = read("session", body) else { return };
    let (text, verdict) = judged(&file.unwrap());
    for name in [kfunc::SESSION_COOKIE, kfunc::SESSION_IS_RETURN].map(|id| kfunc::name(id).unwrap()) {
        assert!(text.contains(&format!("call {name}\n")), "{text}");
    }
    assert_eq!(verdict, Ok(()), "{text}");
}

#[test]
fn whether_a_function_is_there_can_be_asked() {
    let Some(file) = read("is_there", "return bpf_session_cookie ? 7 : 8;") else { return };
    let (text, verdict) = judged(&file.unwrap());
    assert!(text.contains("= 0x1 ll") && verdict.is_ok(), "{text} {verdict:?}");
}

#[test]
fn weak_functions_that_are_missing_may_not_be_reached() {
    let Some(file) = read("guarded", "return bpf_not_here ? bpf_not_here(1) : 8;") else { return };
    let file = file.unwrap();
    let (text, verdict) = judged(&file);
    assert_eq!(verdict, Ok(()), "{text}");
    assert!(file.programs[0].missing[0].1.contains("bpf_not_here"), "{:?}", file.programs[0].missing);

    let Some(file) = read("unguarded", "return bpf_not_here(1);") else { return };
    let (text, verdict) = judged(&file.unwrap());
    assert!(verdict.as_ref().is_err_and(|message| message.contains("unsupported")), "{text} {verdict:?}");
}

#[test]
fn functions_that_are_missing_and_not_weak_may_not_be_reached_either() {
    let Some(file) = read("strong", "return bpf_nor_here(1);") else { return };
    let file = file.unwrap();
    let (text, verdict) = judged(&file);
    assert!(verdict.as_ref().is_err_and(|message| message.contains("unsupported")), "{text} {verdict:?}");
    assert_eq!(file.programs[0].missing[0].1, "the kernel function `bpf_nor_here`");
}

#[test]
fn calls_of_kernel_functions_are_not_written() {
    let object = asm::parse("program \"p\" probe\ncall bpf_session_is_return\nexit\n").unwrap();
    let message = elf::write(&ObjectFile::of(object)).unwrap_err().to_string();
    assert!(message.contains("program `p`, instruction 0: writing calls of kernel functions"), "{message}");
}
