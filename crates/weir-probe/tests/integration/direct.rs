//! Loads of a target's memory without a system call (tests/programs/vanish.c): whatever becomes of that memory, the target never
//! notices, and each look gives the text that is there or a fault that is counted.
//!
//! The program that is attached is made by hand: it reads a text, and counts whether each of its letters is the one that it is to
//! consist of. A twin that asks the kernel for each text gives the same results.

use std::process::Command;
use std::time::{Duration, Instant};

use testkit::target::{self, Source};
use testkit::{Daemon, wait};
use weir_ebpf::{MapKind, MapSpec, helper};
use weir_probe::{
    Attach, Attachment, DirectReads, SiteRequest, Target, When, limits, plan_functions, prepare,
};
use weir_rt::{Executable, RelocKind, Relocation, Symbol};
use weir_symbols::Binary;

use crate::counting::{control, identity, maps};

const DEADLINE: Duration = Duration::from_secs(120);
/// What the program counts.
const FAULTS: u32 = 0;
const RIGHT: u32 = 1;
const WRONG: u32 = 2;

/// Reads a text of up to 64 bytes at the first argument, and compares each byte with the second.
///
/// ```text
///     lea 8(%rsp),%rdi; push %rbx; push %rbp; sub $72,%rsp
///     movzbl 104(%rdi),%ebx; mov 112(%rdi),%rdx; mov %rsp,%rdi; mov $64,%esi; call probe_read_user_str
///     movabs $counts,%rcx; test %eax,%eax; js 4f; lea -1(%rax),%edx; xor %esi,%esi
/// 1:  cmp %edx,%esi; jae 2f; cmp %bl,(%rsp,%rsi); jne 3f; inc %esi; jmp 1b
/// 2:  lock incq 8(%rcx); jmp 5f
/// 3:  lock incq 16(%rcx); jmp 5f
/// 4:  lock incq (%rcx)
/// 5:  add $72,%rsp; pop %rbp; pop %rbx; ret
/// ```
fn looking() -> Executable {
    let code = vec![
        0x48, 0x8d, 0x7c, 0x24, 0x08, 0x53, 0x55, 0x48, 0x83, 0xec, 0x48, 0x0f, 0xb6, 0x5f, 0x68, 0x48, 0x8b,
        0x57, 0x70, 0x48, 0x89, 0xe7, 0xbe, 0x40, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0,
        0, 0x85, 0xc0, 0x78, 0x20, 0x8d, 0x50, 0xff, 0x31, 0xf6, 0x39, 0xd6, 0x73, 0x09, 0x38, 0x1c, 0x34,
        0x75, 0x0b, 0xff, 0xc6, 0xeb, 0xf3, 0xf0, 0x48, 0xff, 0x41, 0x08, 0xeb, 0x0b, 0xf0, 0x48, 0xff, 0x41,
        0x10, 0xeb, 0x04, 0xf0, 0x48, 0xff, 0x01, 0x48, 0x83, 0xc4, 0x48, 0x5d, 0x5b, 0xc3,
    ];
    let call = Symbol::Helper(helper::PROBE_READ_USER_STR);
    let relocations = vec![
        Relocation { offset: 0x1c, kind: RelocKind::Rel32, symbol: call, addend: -4 },
        Relocation { offset: 0x22, kind: RelocKind::Abs64, symbol: Symbol::MapData(0), addend: 0 },
    ];
    const CALLER_SAVED: u16 = 0b1111_1100_0111;
    Executable::by_hand("look", code, relocations, CALLER_SAVED).reading(1 << 13 | 1 << 14)
}

struct Vanish {
    daemon: Daemon,
    attachment: Attachment,
    /// Looks so far, as the program says.
    looks: u64,
}

impl Vanish {
    fn start(flags: &[&str]) -> Vanish {
        let name = flags.concat().replace('-', "");
        let flags: Vec<&str> = ["-O2", "-pthread"].into_iter().chain(flags.iter().copied()).collect();
        let path = target::build(&format!("vanish{name}"), Source::Program("vanish.c"), &flags);
        let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        let binary = Binary::open(&path).unwrap();
        let function = binary.find("vanish_look").unwrap()[0];
        let windows = plan_functions(&[(&binary, function)]);
        let target = Target::open(daemon.pid() as i32).unwrap();
        let map = MapSpec::new("count", MapKind::Array, 4, 24, 1);
        let writes = limits::HOOKS_MAX
            + (2 + limits::FILTER_HOOKS_MAX + limits::GUARDS_MAX) * limits::WRITES_PER_SITE_MAX;
        let identity = identity(target.pid());
        let prepared = prepare(target, &maps(&[map]), control(writes), &identity).unwrap();
        let site = SiteRequest {
            binary: &binary,
            function,
            window: &windows[0],
            called: None,
            semaphore: None,
            programs: vec![Attach { executable: 0, cookie: 0, when: When::Entry }],
            returns: None,
        };
        let attachment = prepared.arm(&[site], &[looking()]).unwrap();
        assert_eq!(attachment.probes(), 1, "{:?}", attachment.outcomes());
        Vanish { daemon, attachment, looks: 0 }
    }

    /// The answer to `line`, while memory is followed.
    fn tell(&mut self, line: &str) -> f64 {
        self.daemon.write(&format!("{line}\n")).unwrap();
        let start = Instant::now();
        loop {
            self.attachment.follow_memory();
            match self.daemon.line(Duration::from_millis(10)) {
                Ok(said) => {
                    let number = said.strip_prefix("done ").unwrap_or_else(|| panic!("{said}"));
                    return number.parse().unwrap();
                }
                Err(error) => {
                    assert!(start.elapsed() < DEADLINE && self.daemon.is_running(), "{line}: {error}")
                }
            }
        }
    }

    fn look(&mut self, line: &str) -> u64 {
        let looks = self.tell(line) as u64;
        self.looks += looks;
        looks
    }

    fn count(&self, which: u32) -> u64 {
        let bytes = self.attachment.maps().map(0).lookup(&0u32.to_le_bytes()).unwrap();
        let at = which as usize * 8;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    /// Loads are direct from here on.
    #[track_caller]
    fn wait(&mut self) {
        let is_on = || {
            self.look_once();
            self.attachment.direct_reads() == DirectReads::On
        };
        let mut is_on = is_on;
        assert!(wait::until(DEADLINE, &mut is_on), "{:?}", self.attachment.direct_reads());
    }

    fn look_once(&mut self) {
        self.look_times(100);
    }

    /// ns each.
    fn look_times(&mut self, times: u64) -> f64 {
        self.looks += times;
        self.tell(&format!("again {times}"))
    }

    fn slow(&self) -> u64 {
        self.attachment.maps().counters().slow_reads
    }

    /// All looks were counted, and none was wrong.
    #[track_caller]
    fn check(mut self) {
        let counts = [FAULTS, RIGHT, WRONG].map(|which| self.count(which));
        assert_eq!((counts[0] + counts[1], counts[2]), (self.looks, 0), "{counts:?}");
        assert_eq!(self.attachment.maps().counters().read_faults, counts[0]);
        self.attachment.detach().unwrap();
        let after = self.tell("again 10");
        assert!(after > 0.0 && self.count(RIGHT) == counts[1]);
        self.daemon.write("end\n").unwrap();
        let ended = self.daemon.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }
}

/// Looks while memory vanishes in `ways`.
#[track_caller]
fn check(ways: &str) {
    let mut vanish = Vanish::start(&[]);
    vanish.wait();
    // While nobody takes anything away all of it comes to be known.
    let is_known = |vanish: &mut Vanish| {
        let (before, looks) = (vanish.slow(), vanish.look("run 100"));
        vanish.slow() - before < looks / 100
    };
    assert!(wait::until(DEADLINE, || is_known(&mut vanish)), "not all memory comes to be known");
    let before = vanish.slow();
    let mut looks = vanish.look(&format!("run 3000 {ways}"));
    // A table holds until the next call, which may come before any reader runs.
    let mut is_direct = |vanish: &mut Vanish| {
        let has_been = vanish.slow() - before < looks;
        looks += if has_been { 0 } else { vanish.look(&format!("run 1000 {ways}")) };
        has_been
    };
    assert!(wait::until(DEADLINE, || is_direct(&mut vanish)), "no look was direct");
    let (slow, tables) = (vanish.slow() - before, vanish.attachment.direct_read_tables());
    println!("{ways}: {looks} looks, {slow} slow, {} faults, {tables} tables", vanish.count(FAULTS));
    vanish.check();
}

#[test]
fn memory_is_unmapped() {
    check("u");
}

#[test]
fn memory_is_mapped_over() {
    check("f");
}

#[test]
fn memory_is_protected() {
    check("p");
}

#[test]
fn memory_is_moved() {
    check("r");
}

#[test]
fn the_heap_shrinks() {
    check("b");
}

#[test]
fn everything_at_once_under_signals() {
    check("ufprbs");
}

#[test]
fn children_share_or_copy_the_memory() {
    check("uvk");
}

#[test]
fn a_twin_that_asks_the_kernel_gives_the_same() {
    let mut vanish = Vanish::start(&[]);
    vanish.attachment.keep_reads_slow();
    let looks = vanish.look("run 1000 ufprbs");
    assert_eq!(vanish.attachment.direct_reads(), DirectReads::Off("they are held off".into()));
    assert!(looks > 0 && vanish.slow() >= looks, "{} of {looks}", vanish.slow());
    vanish.check();
}

/// Bad addresses are faults, and nothing else.
#[test]
fn bad_addresses_are_faults() {
    let mut vanish = Vanish::start(&[]);
    vanish.wait();
    let before = vanish.count(FAULTS);
    assert_eq!(vanish.look("bad 100000"), 100_000);
    assert_eq!(vanish.count(FAULTS) - before, 100_000);
    vanish.check();
}

/// A thread may have asked for faults where words are at odd addresses: it gets none from weir.
#[test]
fn odd_addresses_do_no_harm_where_alignment_is_checked() {
    let mut vanish = Vanish::start(&[]);
    vanish.wait();
    let before = vanish.count(RIGHT);
    assert_eq!(vanish.look("odd 10000"), 10_000);
    assert_eq!(vanish.count(RIGHT) - before, 10_000);
    vanish.check();
}

/// What a look costs, beside one that asks the kernel: in one run, so that other load is on both, and in rounds so short that
/// some of them are not interrupted.
#[test]
fn a_direct_look_is_cheaper() {
    const LOOKS: u64 = 5_000;
    const ROUNDS: u64 = 30;
    let (mut direct, mut slow) = (Vanish::start(&[]), Vanish::start(&[]));
    slow.attachment.keep_reads_slow();
    direct.wait();
    let before = direct.slow();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(direct.look_times(LOOKS));
        times[1].push(slow.look_times(LOOKS));
    }
    let least = times.each_ref().map(|times| times.iter().copied().fold(f64::MAX, f64::min));
    println!("direct {:.1} ns, by the kernel {:.1} ns", least[0], least[1]);
    // Where a thread is preempted three times in one look, the kernel is asked.
    assert!(
        direct.slow() - before < ROUNDS * LOOKS / 10,
        "{} of the looks were slow",
        direct.slow() - before
    );
    assert!(least[0] * 2.0 < least[1], "{times:?}");
    direct.check();
    slow.check();
}

/// What unmapping costs while a table holds, beside a target without.
#[test]
fn unmapping_goes_on() {
    for threads in [1, 8] {
        let (mut direct, mut slow) = (Vanish::start(&[]), Vanish::start(&[]));
        slow.attachment.keep_reads_slow();
        direct.wait();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            times[0].push(direct.tell(&format!("unmap 4000 {threads}")));
            times[1].push(slow.tell(&format!("unmap 4000 {threads}")));
        }
        let least = times.each_ref().map(|times| times.iter().copied().fold(f64::MAX, f64::min));
        println!("{threads} threads: {:.0} ns a page watched, {:.0} ns without", least[0], least[1]);
        assert!(least[0] < least[1] * 20.0, "{times:?}");
        direct.check();
        slow.check();
    }
}

/// What a target does that direct loads end with, and what is said of it.
#[track_caller]
fn check_off(flags: &[&str], line: &str, why: &str) {
    let mut vanish = Vanish::start(flags);
    if !line.is_empty() {
        vanish.wait();
        let answer = vanish.tell(line);
        if answer < 0.0 {
            // The processor has none of that.
            return vanish.check();
        }
    }
    let is_off = |vanish: &mut Vanish| {
        vanish.look_once();
        matches!(vanish.attachment.direct_reads(), DirectReads::Off(said) if said.contains(why))
    };
    let is_told = wait::until(DEADLINE, || is_off(&mut vanish));
    assert!(is_told, "{:?}", vanish.attachment.direct_reads());
    let (before, looks) = (vanish.slow(), vanish.look("run 300 u"));
    assert!(vanish.slow() - before >= looks);
    vanish.check();
}

#[test]
fn code_that_unmaps_past_the_c_library_is_named() {
    check_off(&["-DRAW"], "", "calls munmap past the C library");
}

#[test]
fn code_that_is_made_ends_direct_loads() {
    check_off(&[], "code", "it has made code itself");
}

#[test]
fn protection_keys_end_direct_loads() {
    check_off(&[], "tag", "protection keys");
}

#[test]
fn a_static_program_is_read_slowly() {
    check_off(&["-static"], "", "");
}
