//! Compiled BPF that Debian's packages ship: read, adapted to this kernel's types, verified, and run.
//!
//! Objects stand as files of their own (xdp-tools, ir-keytable) and inside programs (libbpf-tools, which embed them).
//! Every program is accepted, or refused for a reason on the list below; what is accepted runs, on a context of zeros
//! and on a packet, with one result in the interpreter and in machine code. The kernel accepts it too, as far as it loads
//! programs that are attached to nothing.

use crate::engines;

use std::collections::BTreeMap;
use std::process::Command;

use testkit::skip;
use weir_ebpf::btf::Btf;
use weir_ebpf::btf::core::Target;
use weir_ebpf::elf::{self, ObjectFile};
use weir_ebpf::{MapKind, Program, ProgramKind};
use weir_jit::Flags;
use weir_rt::Context;
use weir_rt::executable::Frame;
use weir_rt::local::LocalProgram;
use weir_rt::segment::{Identity, Segment, SegmentLayout, map_fault};
use weir_verifier::{Limits, Maps, RejectionKind, VerifiedProgram, verify};

/// Packages that ship objects.
const PACKAGES: [&str; 4] = ["libbpf-tools", "libxdp1", "xdp-tools", "ir-keytable"];

/// Why a program is not accepted, besides being unsupported.
#[rustfmt::skip]
const UNACCEPTED: &[(&str, &str)] = &[
    ("not a pointer to memory",      "it follows a pointer of the kernel's by itself, which is memory of no process"),
    ("where a number is needed",     "the same"),
    ("at offset 20 of the context",  "it reads egress_ifindex, which only programs of a map of devices have"),
];

/// Fewer would say that something broke.
const OBJECTS_MIN: usize = 60;
const ACCEPTED_MIN: usize = 300;

#[test]
fn what_debian_ships_is_verified_and_runs() {
    let Some(kernel) =
        std::fs::read("/sys/kernel/btf/vmlinux").ok().and_then(|bytes| Btf::parse(&bytes).ok())
    else {
        return skip::skip("kernel-btf", "this kernel has no /sys/kernel/btf/vmlinux");
    };
    let objects = objects();
    if objects.len() < OBJECTS_MIN {
        return skip::skip("debian-objects", format!("{} are not installed", PACKAGES.join(", ")));
    }
    let target = Target::new(&kernel);
    let (mut accepted, mut reasons, mut faults) = (0, BTreeMap::new(), Vec::new());
    let (mut verdicts, mut refused_there) = (BTreeMap::new(), BTreeMap::new());
    for (name, bytes) in &objects {
        let system = elf::System { target: Some(&target), kernel_version: || Some(6 << 16 | 1 << 8) };
        let file = match elf::read_on(bytes, system) {
            Ok(mut file) => {
                // Their tools size them before they load them, mostly by the number of CPUs.
                let unsized_maps = file.object.maps.iter_mut().filter(|map| map.max_entries == 0);
                unsized_maps
                    .filter(|map| map.kind != MapKind::PerfEventArray)
                    .for_each(|map| map.max_entries = 64);
                file.leave_out_maps(map_fault);
                file
            }
            Err(error) => {
                faults.push(format!("{name}: {error}"));
                continue;
            }
        };
        let kernel =
            testkit::kernel::available().is_ok().then(|| testkit::kernel::Oracle::of(&file).ok()).flatten();
        for index in 0..file.object.programs.len() {
            let ours = verified(&file, index);
            if let Some(theirs) = kernel.as_ref().and_then(|kernel| kernel.verdict(&file, index)) {
                *verdicts.entry((ours.is_ok(), theirs.is_ok())).or_insert(0) += 1;
                if let (Ok(_), Err(log)) = (&ours, theirs) {
                    *refused_there.entry(log).or_insert(0) += 1;
                }
            }
            match ours {
                Ok(program) => {
                    accepted += 1;
                    runs_the_same(&program, &file, name);
                }
                Err((RejectionKind::Unsupported, message)) => {
                    *reasons.entry(short(&message)).or_insert(0) += 1;
                }
                Err((_, message)) => judge(&message, UNACCEPTED, &mut reasons, &mut faults, name),
            }
        }
    }
    eprintln!("{} objects, {accepted} programs accepted", objects.len());
    for (reason, count) in &reasons {
        eprintln!("{count:6} {reason}");
    }
    for ((ours, theirs), count) in &verdicts {
        eprintln!("{count:6} here {ours}, in the kernel {theirs}");
    }
    for (log, count) in &refused_there {
        eprintln!("{count:6} refused there alone: {log}");
    }
    // Older ones lack helpers.
    let is_known = testkit::kernel::version() >= (6, 18);
    assert!(!is_known || refused_there.is_empty(), "accepted here alone: {refused_there:?}");
    assert!(faults.is_empty(), "{} refusals without a reason:\n{}", faults.len(), faults.join("\n"));
    assert!(accepted >= ACCEPTED_MIN, "only {accepted} programs were accepted");
}

/// Counts a refusal, under its cause if that is known.
fn judge(
    message: &str,
    known: &[(&str, &str)],
    reasons: &mut BTreeMap<String, usize>,
    faults: &mut Vec<String>,
    name: &str,
) {
    match known.iter().find(|(words, _)| message.contains(words)) {
        Some((_, cause)) => *reasons.entry((*cause).to_owned()).or_insert(0) += 1,
        None => faults.push(format!("{name}: {message}")),
    }
}

/// The words of an unsupported program's message that do not depend on the program.
fn short(message: &str) -> String {
    message
        .split("unsupported: ")
        .last()
        .unwrap_or_default()
        .chars()
        .filter(|char| !char.is_ascii_digit())
        .collect()
}

fn verified(file: &ObjectFile, index: usize) -> Result<VerifiedProgram, (RejectionKind, String)> {
    let program: &Program = &file.object.programs[index];
    let section = &file.programs[index].section;
    if ObjectFile::kind_of(section).is_none() {
        let kind = section.split('/').next().unwrap_or_default();
        return Err((RejectionKind::Unsupported, format!("unsupported: programs of section {kind}/…")));
    }
    let frozen = file.frozen();
    let maps = Maps::frozen(&file.object.maps, &frozen);
    verify(program, maps, &Limits::default()).map_err(|rejection| {
        let missing = &file.programs[index].missing;
        let missing = missing.iter().find(|(slot, _)| Some(*slot as usize) == rejection.at);
        let message =
            missing.map_or_else(|| rejection.to_string(), |(_, what)| format!("unsupported: {what}"));
        (rejection.kind, message)
    })
}

/// Interpreter and machine code give one result, each on maps of its own.
fn runs_the_same(program: &VerifiedProgram, file: &ObjectFile, name: &str) {
    let abi = engines::shared_abi(engines::has_bmi2());
    let abi = if program.needs_lane() { weir_rt::SiteAbi { lanes: abi.lanes.claimed(), ..abi } } else { abi };
    let executable = engines::compiled(program, &abi, Flags::Change);
    let packet = [[0xffu8; 12].as_slice(), &[8, 0, 0x45], &[0; 49]].concat();
    let mut results = [0, 0];
    for (machine_code, result) in [false, true].into_iter().zip(&mut results) {
        let segment = segment(file, program.needs_lane());
        let environment = weir_interp::Environment { segment: &segment };
        let local = machine_code.then(|| LocalProgram::load(&executable, &segment).expect("code fits"));
        let mut frame = Frame::default();
        let mut lent = match program.kind() {
            ProgramKind::Xdp => Some(Context::xdp(&[], &packet)),
            ProgramKind::SocketFilter => Some(Context::socket(&packet[..14], &packet[14..])),
            ProgramKind::Classifier => Some(Context::classifier(&[], &packet, 100)),
            _ => None,
        };
        *result = match (&local, &mut lent) {
            (Some(local), Some(lent)) => local.run(lent),
            (Some(local), None) => local.run(&mut frame),
            (None, Some(lent)) => weir_interp::run(program, &environment, lent).expect("verified"),
            (None, None) => weir_interp::run(program, &environment, &mut frame).expect("verified"),
        };
    }
    assert_eq!(results[0], results[1], "{name}: {}", program.name());
}

fn segment(file: &ObjectFile, claims: bool) -> Segment {
    let plan = if claims { SegmentLayout::plan_claimable } else { SegmentLayout::plan };
    let layout = plan(&file.object.maps, engines::cpus()).expect("maps fit");
    let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
    for (index, origin) in file.maps.iter().enumerate() {
        if let Some(initial) = &origin.initial {
            segment.map(index).update(&0u32.to_le_bytes(), initial, 0).expect("its first contents");
        }
    }
    segment
}

/// Every object in the packages' files, by name.
fn objects() -> Vec<(String, Vec<u8>)> {
    let listed = Command::new("dpkg").arg("-L").args(PACKAGES).output();
    let listed =
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut objects = Vec::new();
    for path in listed.lines() {
        let is_file = std::fs::symlink_metadata(path).is_ok_and(|data| data.is_file());
        let Some(bytes) = is_file.then(|| std::fs::read(path).ok()).flatten() else { continue };
        for (number, start) in starts(&bytes).enumerate() {
            if let Some(end) = end_of(&bytes[start..]) {
                objects.push((format!("{path}#{number}"), bytes[start..start + end].to_vec()));
            }
        }
    }
    objects
}

/// Where ELF files for BPF begin.
fn starts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    const EM_BPF: [u8; 2] = 247u16.to_le_bytes();
    let is_start = |at: &usize| {
        bytes[*at..].starts_with(b"\x7fELF\x02\x01\x01") && bytes.get(at + 18..at + 20) == Some(&EM_BPF)
    };
    (0..bytes.len().saturating_sub(64)).filter(is_start)
}

/// Behind the table of sections and all sections.
fn end_of(bytes: &[u8]) -> Option<usize> {
    let number = |at: usize, count: usize| {
        let bytes = bytes.get(at..at.checked_add(count)?)?;
        Some(bytes.iter().rev().fold(0usize, |number, byte| number << 8 | usize::from(*byte)))
    };
    let (table, each, count) = (number(40, 8)?, number(58, 2)?, number(60, 2)?);
    let mut end = table + each * count;
    for header in (0..count).map(|index| table + index * each) {
        const NOTHING: usize = 8;
        if number(header + 4, 4)? != NOTHING {
            end = end.max(number(header + 24, 8)? + number(header + 32, 8)?);
        }
    }
    (end <= bytes.len()).then_some(end)
}
