//! Functions of every shape (tests/programs/shapes.c): by which step of the ladder each is patched, and that it then
//! does what it did, register by register and flag by flag.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::target::{self, Source};
use testkit::{Daemon, wait};
use weir_probe::launch::Ended;
use weir_probe::{Launched, Target, plan_functions, restore};
use weir_symbols::Binary;

use crate::counting::{arm, count};

/// Calls of each shape in one run.
const CALLS: u64 = 500;

/// How each shape is patched, or the reason code why it is not.
const SHAPES: [(&str, &str); 38] = [
    ("long_first", "jump over 1 instruction"),
    ("prologue", "jump over 3 instructions"),
    ("one_byte", "jump over 1 instruction and padding"),
    ("two_bytes", "jump over 1 instruction and padding"),
    ("three_bytes", "jump over 2 instructions and padding"),
    ("four_bytes", "jump over 2 instructions and padding"),
    ("jumps_early", "jump over 2 instructions and padding"),
    ("call_second", "short jump over 1 instruction, through a hole"),
    ("call_third", "short jump over 2 instructions, through a hole"),
    ("call_after_push", "jump over 2 instructions, the last a call"),
    ("call_first", "jump over 1 instruction, the last a call"),
    ("call_through_memory", "jump over 1 instruction, the last a call"),
    ("loops_to_second", "short jump over 1 instruction, through a hole"),
    ("loops_to_third", "short jump over 2 instructions, through a hole"),
    ("rip_lea", "jump over 1 instruction"),
    ("rip_mov", "jump over 1 instruction"),
    ("rip_cmp", "jump over 1 instruction"),
    ("rip_add", "jump over 1 instruction"),
    ("rip_vector", "jump over 1 instruction"),
    ("rip_behind_push", "jump over 2 instructions"),
    ("jump_through_memory", "jump over 1 instruction"),
    ("jrcxz_first", "jump over 2 instructions"),
    ("loop_first", "jump over 2 instructions"),
    ("loopne_first", "jump over 2 instructions"),
    ("branch_short", "jump over 2 instructions"),
    ("branch_near", "jump over 2 instructions"),
    ("branch_on_flags", "jump over 3 instructions"),
    ("uses_flags", "jump over 2 instructions"),
    ("table", "jump over 3 instructions"),
    ("table_into_window", "branch-into-window"),
    ("landing_pad", "jump over 3 instructions"),
    ("landing_pad_call", "short jump over 1 instruction, through a hole"),
    ("pad_single", "jump over a pad"),
    ("pad_bytes", "jump over a pad"),
    ("pad_before", "short jump over 1 instruction, through a hole"),
    ("symbol_inside", "short jump over 1 instruction, through a hole"),
    ("system_call_second", "jump over 2 instructions"),
    ("page_straddle", "short jump over 1 instruction, through a hole"),
];

/// The same for one binary. Where the bytes behind a first instruction lead below the start of memory, an outpost is
/// possible only in one that stands higher.
fn wanted(binary: &Binary) -> Vec<(&'static str, &'static str)> {
    let is_movable = binary.is_position_independent();
    let row = |&(name, wanted): &(&'static str, &'static str)| match name {
        "table_into_window" if is_movable => (name, "punned jump over 1 instruction, through an outpost"),
        _ => (name, wanted),
    };
    SHAPES.iter().map(row).collect()
}

fn patched(binary: &Binary) -> Vec<&'static str> {
    // Reason codes are single words.
    wanted(binary).into_iter().filter(|shape| shape.1.contains(' ')).map(|shape| shape.0).collect()
}

#[test]
fn each_shape_is_patched_by_the_first_step_that_holds() {
    let check = |path: &Path| {
        let binary = Binary::open(path).unwrap();
        let sites: Vec<_> = SHAPES.iter().map(|shape| (&binary, binary.find(shape.0).unwrap()[0])).collect();
        for ((name, wanted), outcome) in wanted(&binary).into_iter().zip(plan_functions(&sites)) {
            let found = outcome.map_or_else(|refusal| refusal.code(), |window| window.technique());
            assert_eq!(found, wanted, "{name} in {}", path.display());
        }
    };
    for (_, path) in target::matrix("shapes", Source::Program("shapes.c"), &[]) {
        check(&path);
    }
}

#[test]
fn holes_of_one_plan_are_disjoint_and_like_the_file() {
    let path = target::program("shapes");
    let binary = Binary::open(&path).unwrap();
    let sites: Vec<_> = binary.functions().iter().map(|function| (&binary, function)).collect();
    let mut written: Vec<(u64, usize)> = Vec::new();
    for window in plan_functions(&sites).into_iter().flatten() {
        let bias = 1 << 40;
        let to = window.targets(bias).map_or(bias + (1 << 20), |targets| targets.start);
        for write in window.writes(bias, to) {
            let file = binary.bytes(weir_symbols::LinkAddr(write.address - bias), write.old.len()).unwrap();
            assert_eq!(file, write.old, "at {:#x}", write.address);
            assert_eq!(write.old.len(), write.new.len());
            assert_eq!(write.address / 4096, (write.address + write.new.len() as u64 - 1) / 4096);
            written.push((write.address, write.new.len()));
        }
    }
    written.sort_unstable();
    assert!(written.len() > 40, "{written:x?}");
    for pair in written.windows(2) {
        assert!(pair[0].0 + pair[0].1 as u64 <= pair[1].0, "{pair:x?} overlap");
    }
}

#[test]
fn every_register_and_flag_is_as_in_the_unprobed_program() {
    for (variant, path) in target::matrix("shapes", Source::Program("shapes.c"), &[]) {
        let unprobed = Command::new(&path).output().unwrap();
        let hash = String::from_utf8(unprobed.stdout).unwrap().trim().to_owned();
        let command = [path.display().to_string(), hash];
        let (mut launched, exec) =
            Launched::start(&command, None, nix::sys::signal::SigSet::empty()).unwrap();
        let binary = Binary::open(&path).unwrap();
        let target = exec.into_target(Some(&[binary.identity().unwrap()])).unwrap();
        let patched = patched(&binary);
        let attachment = arm(target, &path, &patched).unwrap();
        assert_eq!(attachment.probes(), patched.len(), "{variant}: {:?}", attachment.outcomes());
        let mut status = None;
        let ended = wait::until(Duration::from_secs(120), || {
            status = launched.try_wait();
            status.is_some()
        });
        assert!(ended, "{variant}: the target does not end");
        assert_eq!(status, Some(Ended::Code(0)), "{variant}: a result differs");
        assert_eq!(count(&attachment), CALLS * patched.len() as u64, "{variant}");
    }
}

/// A serving process, with its text as it was.
struct Server {
    daemon: Daemon,
    binary: Binary,
    before: Vec<Vec<u8>>,
}

impl Server {
    fn start() -> Server {
        let path = target::program("shapes");
        let mut command = Command::new(&path);
        command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut daemon = Daemon::spawn(command).unwrap();
        daemon.line_with("ready", Duration::from_secs(120)).unwrap();
        let mut server = Server { daemon, binary: Binary::open(&path).unwrap(), before: Vec::new() };
        server.before = server.text();
        server
    }

    fn pid(&self) -> i32 {
        self.daemon.pid() as i32
    }

    /// All of its text.
    fn text(&self) -> Vec<Vec<u8>> {
        let maps = weir_symbols::maps::read(self.pid() as u32).unwrap();
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        let read = |(start, bytes): (weir_symbols::LinkAddr, &[u8])| {
            let identity = self.binary.identity().unwrap();
            let at = weir_symbols::maps::to_virtual(&maps, identity, &self.binary, start).unwrap();
            let mut now = vec![0; bytes.len()];
            memory.read_exact_at(&mut now, at.0).unwrap();
            now
        };
        self.binary.executable_ranges().into_iter().map(read).collect()
    }

    fn finish(mut self) {
        self.daemon.write("\n").unwrap();
        self.daemon.line_with("same", Duration::from_secs(120)).unwrap();
        self.daemon.finish(Duration::from_secs(120)).unwrap();
    }
}

#[test]
fn attaching_and_detaching_changes_no_result_under_signals() {
    let server = Server::start();
    let patched = patched(&server.binary);
    for round in 0..15 {
        let target = Target::open(server.pid()).unwrap();
        let mut attachment = arm(target, server.binary.path(), &patched).unwrap();
        assert_eq!(attachment.probes(), patched.len(), "round {round}: {:?}", attachment.outcomes());
        let runs = wait::until(Duration::from_secs(120), || count(&attachment) > 10 * CALLS);
        assert!(runs, "round {round}: {} counted", count(&attachment));
        let report = attachment.detach().unwrap();
        assert_eq!((report.restored, &report.foreign[..]), (patched.len(), &[][..]), "round {round}");
        assert!(server.text() == server.before, "round {round}: the text differs");
    }
    server.finish();
}

#[test]
fn the_next_weir_finds_short_jumps_and_fills_their_holes() {
    let server = Server::start();
    let patched = patched(&server.binary);
    let target = Target::open(server.pid()).unwrap();
    let attachment = arm(target, server.binary.path(), &patched).unwrap();
    assert!(wait::until(Duration::from_secs(120), || count(&attachment) > 10 * CALLS));
    crate::counting::let_die(attachment);
    let report = restore::detach(server.pid()).unwrap();
    assert_eq!((report.restored, &report.foreign[..]), (patched.len(), &[][..]));
    assert!(server.text() == server.before, "the text differs");
    server.finish();
}
