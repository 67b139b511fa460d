//! Hash maps of processes, for programs in the kernel: their memory is an array of the kernel's that the processes have mapped, and look-ups, updates
//! and deletes become calls of functions that work on it.
//!
//! In: a program whose calls of map helpers name such maps, and where in the array each map lies ([`Table`]). Out: the same program with those calls led
//! to functions behind it ([`Maps::use_tables`](crate::Maps::use_tables)); accesses to scalar maps ([`Scalar`]) with their address in the array.
//!
//! The functions follow the protocol of weir-rt's `c/hash.c`, which the processes follow on the same memory, with one difference: eBPF exchanges 8
//! bytes at most, so a value that is there is not changed together with its link. Its node is replaced, as `hash.c` does it with large values; and what
//! replaces takes its node from the spare ones. Additions are made in place, by programs themselves. Loads and stores stand in the order that x86-64
//! keeps; a machine that does not needs acquiring loads here.
//!
//! The kernel's verifier sees an array with one value: links and indexes that are read from it are compared with their bounds before they are used,
//! and each function ends after so many steps.
//!
//! Deliberately not here: making the array, and mapping it anywhere.

mod text;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nix::libc;
use weir_ebpf::insn::{class, jmp, pseudo};
use weir_ebpf::map::Table;
use weir_ebpf::{Insn, asm, helper};

use crate::KernelError;
use crate::program::{Code, load_probe};

/// Where the value of a map of one entry lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scalar {
    /// Its index among the maps of the program.
    pub map: u32,
    /// From the beginning of the array's value.
    pub offset: u64,
}

/// The maps of a program that processes have mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tables {
    /// The index of the array that they lie in.
    pub array: u32,
    /// Bytes of its value.
    pub bytes: u64,
    /// Hashes.
    pub tables: Vec<Table>,
    /// Maps of one entry.
    pub scalars: Vec<Scalar>,
}

/// What is done to a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Operation {
    Lookup,
    Update,
    Delete,
}

/// Bytes of the stack that functions use beside a program's own, those of functions that they call included; the kernel counts 32 at least for each.
pub const STACK_BYTES: u32 = 192;

/// A program that has `bpf_loop` call a function, as those on tables do.
const LOOPS: &str = "program \"asked\" probe\nr1 = 1\nr2 = step ll\nr3 = 0\nr4 = 0\ncall 181\nr0 = 0\nexit\nstep:\nr0 = 0\nexit\n";

/// Whether the running kernel takes programs that have such maps (Linux 5.17). It is asked once, by loading a program; who may load none is answered yes.
pub fn shares_maps() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let object = asm::parse(LOOPS).unwrap_or_else(|error| panic!("{error}"));
        let code = object.programs.first().map(|program| Code::of(&program.insns));
        let answer = code.map(|code| load_probe(0, "asked", &code));
        !matches!(answer, Some(Err(KernelError::Refused { error, .. })) if error.raw_os_error() == Some(libc::EINVAL))
    })
}

/// The instructions with all that they do to these maps done to the array.
///
/// # Panics
/// If another call than of look-up, update and delete names one of the tables: of such maps weir-codegen makes none.
pub(crate) fn link(insns: &[Insn], tables: &Tables) -> Code {
    let mut insns = insns.to_vec();
    let mut calls: BTreeMap<(usize, Operation), Vec<usize>> = BTreeMap::new();
    let mut map = None;
    let mut at = 0;
    while at < insns.len() {
        let insn = insns[at];
        match insn.src {
            // A call takes it from r1, and leaves nothing there.
            pseudo::MAP_INDEX if insn.is_wide() && insn.dst == 1 => map = Some(insn.imm as u32),
            pseudo::MAP_INDEX_VALUE if insn.is_wide() => {
                if let Some(scalar) = tables.scalars.iter().find(|scalar| scalar.map == insn.imm as u32) {
                    insns[at].imm = tables.array as i32;
                    insns[at + 1].imm += scalar.offset as i32;
                }
            }
            _ => {}
        }
        if is_helper_call(&insn) {
            let named = map.take();
            if let Some(table) = tables.tables.iter().position(|table| named == Some(table.map)) {
                let operation = match insn.imm {
                    helper::MAP_LOOKUP_ELEM => Operation::Lookup,
                    helper::MAP_UPDATE_ELEM => Operation::Update,
                    helper::MAP_DELETE_ELEM => Operation::Delete,
                    other => panic!("helper {other} of a map that processes have mapped"),
                };
                calls.entry((table, operation)).or_default().push(at);
            }
        }
        at += 1 + usize::from(insn.is_wide());
    }
    if calls.is_empty() {
        return Code::of(&insns);
    }
    let wanted: Vec<(usize, Operation)> = calls.keys().copied().collect();
    let text::Functions { text, global } = text::of(tables, &wanted);
    let object = asm::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let functions = object.programs.into_iter().next().map(|program| program.insns).unwrap_or_default();
    // They begin with a call of each that is wanted, and of each that is global.
    let count = wanted.len() + global.len();
    let end = insns.len();
    let start = |number: usize| end + number + 1 + functions[number].imm as usize - count;
    for (number, sites) in calls.values().enumerate() {
        for &site in sites {
            (insns[site].src, insns[site].imm) = (pseudo::LOCAL, (start(number) - site - 1) as i32);
        }
    }
    let starts = (wanted.len()..count).map(|number| start(number) as u32);
    let global = starts.zip(global).collect();
    let in_array = |insn: &Insn| match insn.src {
        pseudo::MAP_INDEX_VALUE if insn.is_wide() => Insn { imm: tables.array as i32, ..*insn },
        _ => *insn,
    };
    insns.extend(functions[count..].iter().map(in_array));
    Code { insns, global }
}

fn is_helper_call(insn: &Insn) -> bool {
    insn.opcode == class::JMP | jmp::CALL && insn.src == 0
}
