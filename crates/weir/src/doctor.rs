//! Doctor: what this machine allows, one line a check, with the remedy for each "no".
//!
//! [`Facts`] are read at the edge ([`Facts::gather`]); [`checks`] judges them and is pure. A line is
//! `ok|warn|no  what it is — remedy`. Deliberately not done: changing anything.

use std::fmt;
use std::fs;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::ptrace;
use nix::unistd::Pid;

use weir_policy::policy::file::SYSTEM_POLICY;
use weir_policy::rules::Rules;

/// The oldest kernel with what tracing needs: pidfd_getfd (5.6) and PTRACE_GET_RSEQ_CONFIGURATION (5.13).
const KERNEL_MIN: Version = Version(5, 13);
const KERNEL_PIDFD_GETFD: Version = Version(5, 6);
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Ok,
    Warn,
    No,
}

/// One line of the doctor's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Check {
    pub(crate) verdict: Verdict,
    pub(crate) what: String,
    /// None for `Ok`.
    pub(crate) remedy: Option<&'static str>,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::No => "no",
        };
        write!(f, "{verdict:<4}  {}", self.what)?;
        match self.remedy {
            Some(remedy) => write!(f, " — {remedy}"),
            None => Ok(()),
        }
    }
}

/// What was found out of the machine. Texts are the files as read; None: not there, or not readable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    /// uname's machine and release.
    pub(crate) machine: String,
    pub(crate) release: String,
    /// /proc/self/status
    pub(crate) status: String,
    /// /proc/sys/kernel/yama/ptrace_scope
    pub(crate) yama: Option<String>,
    /// Seizing a child of one's own.
    pub(crate) seize_child: Result<(), String>,
    /// Making a memfd and sealing it.
    pub(crate) memfd: Result<(), String>,
    /// /proc/sys/vm/memfd_noexec
    pub(crate) memfd_noexec: Option<String>,
    /// The C library that this process has loaded, and whether it registers rseq. None: static.
    pub(crate) libc: Option<(String, bool)>,
    /// /proc/cpuinfo
    pub(crate) cpuinfo: String,
    /// /sys/devices/system/clocksource/clocksource0/current_clocksource
    pub(crate) clock_source: Option<String>,
    /// /proc/sys/kernel/unprivileged_bpf_disabled; None: a kernel without bpf(2).
    pub(crate) unprivileged_bpf: Option<String>,
    /// How the kernel has uprobes, if it has them.
    pub(crate) uprobes: Option<&'static str>,
    /// What the kernel lacks of what its events need, as far as this user may ask.
    pub(crate) lacks: Vec<weir_kernel::Lack>,
    /// What each policy in force says of the user that asks; or the mistake in one.
    pub(crate) policies: Result<Vec<String>, String>,
}

impl Facts {
    /// Reads the machine.
    pub(crate) fn gather() -> Facts {
        let read = |path: &str| fs::read_to_string(path).ok();
        let (machine, release) = match nix::sys::utsname::uname() {
            Ok(name) => {
                (name.machine().to_string_lossy().into_owned(), name.release().to_string_lossy().into_owned())
            }
            Err(_) => (String::new(), String::new()),
        };
        Facts {
            machine,
            release,
            status: read("/proc/self/status").unwrap_or_default(),
            yama: read("/proc/sys/kernel/yama/ptrace_scope"),
            seize_child: seize_child(),
            memfd: seal_memfd().map_err(|error| error.to_string()),
            memfd_noexec: read("/proc/sys/vm/memfd_noexec"),
            libc: libc_of(&read("/proc/self/maps").unwrap_or_default()),
            cpuinfo: read("/proc/cpuinfo").unwrap_or_default(),
            clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            unprivileged_bpf: read("/proc/sys/kernel/unprivileged_bpf_disabled"),
            uprobes: uprobes(),
            lacks: weir_kernel::lacks(),
            policies: policies(),
        }
    }
}

/// Every check, in the order they print.
pub(crate) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![
        machine(facts),
        kernel(facts),
        ptrace_scope(facts),
        ptrace_works(facts),
        seccomp(facts),
        memfd(facts),
        memfd_noexec(facts),
        pidfd_getfd(facts),
        rseq_configuration(facts),
        rseq_of_libc(facts),
        cpu_flags(facts),
        clock_source(facts),
        bpf(facts),
        policy(facts),
    ];
    // Who may not ask has been told so.
    if facts.may_load() {
        checks.extend(facts.lacks.iter().map(|lack| warn(lack.what, lack.instead)));
    }
    checks
}

fn ok(what: impl Into<String>) -> Check {
    Check { verdict: Verdict::Ok, what: what.into(), remedy: None }
}

fn warn(what: impl Into<String>, remedy: &'static str) -> Check {
    Check { verdict: Verdict::Warn, what: what.into(), remedy: Some(remedy) }
}

fn no(what: impl Into<String>, remedy: &'static str) -> Check {
    Check { verdict: Verdict::No, what: what.into(), remedy: Some(remedy) }
}

fn machine(facts: &Facts) -> Check {
    match facts.machine.as_str() {
        "x86_64" => ok("x86-64 processor"),
        other => no(format!("processor is {other:?}"), "this version traces x86-64 programs alone"),
    }
}

fn kernel(facts: &Facts) -> Check {
    let what = format!("kernel {}", facts.release);
    match Version::parse(&facts.release) {
        Some(version) if version >= KERNEL_MIN => ok(what),
        _ => no(what, "use kernel 5.13 or newer"),
    }
}

fn ptrace_scope(facts: &Facts) -> Check {
    let capable = facts.has_capability(CAP_SYS_PTRACE);
    let scope = facts.yama.as_deref().map(str::trim);
    let what = format!(
        "ptrace of running processes: CAP_SYS_PTRACE {}, yama ptrace_scope {}",
        if capable { "held" } else { "not held" },
        scope.unwrap_or("absent")
    );
    match (capable, scope) {
        (_, Some("3")) => no(what, "ptrace is off until a reboot with kernel.yama.ptrace_scope below 3"),
        (true, _) => ok(what),
        (false, None | Some("0")) => warn(what, "only processes of your own user; run as root for others"),
        (false, Some("1")) => {
            warn(what, "only -c; for -p run as root, or: sysctl kernel.yama.ptrace_scope=0")
        }
        (false, _) => no(what, "run as root, or: sysctl kernel.yama.ptrace_scope=1"),
    }
}

fn ptrace_works(facts: &Facts) -> Check {
    match &facts.seize_child {
        Ok(()) => ok("ptrace of a child"),
        Err(error) => no(
            format!("ptrace of a child: {error}"),
            "a container's seccomp profile may forbid it; start it with --cap-add=SYS_PTRACE",
        ),
    }
}

fn seccomp(facts: &Facts) -> Check {
    match facts.status_field("Seccomp") {
        Some("0") | None => ok("no seccomp filter here"),
        Some(_) => warn(
            "a seccomp filter is active here",
            "system calls that the other lines allow may still be refused in a target",
        ),
    }
}

fn memfd(facts: &Facts) -> Check {
    match &facts.memfd {
        Ok(()) => ok("memfd with sealing"),
        Err(error) => no(format!("memfd with sealing: {error}"), "use a kernel with CONFIG_MEMFD_CREATE"),
    }
}

fn memfd_noexec(facts: &Facts) -> Check {
    match facts.memfd_noexec.as_deref().map(str::trim) {
        None => ok("vm.memfd_noexec absent"),
        Some(value @ ("0" | "1")) => ok(format!("vm.memfd_noexec {value}")),
        Some(value) => {
            no(format!("vm.memfd_noexec {value}: no executable memfd"), "sysctl vm.memfd_noexec=1")
        }
    }
}

fn pidfd_getfd(facts: &Facts) -> Check {
    match Version::parse(&facts.release) {
        Some(version) if version >= KERNEL_PIDFD_GETFD => ok("pidfd_getfd (kernel 5.6)"),
        _ => no("pidfd_getfd (kernel 5.6)", "use kernel 5.13 or newer"),
    }
}

fn rseq_configuration(facts: &Facts) -> Check {
    match Version::parse(&facts.release) {
        Some(version) if version >= KERNEL_MIN => ok("PTRACE_GET_RSEQ_CONFIGURATION (kernel 5.13)"),
        _ => warn(
            "PTRACE_GET_RSEQ_CONFIGURATION (kernel 5.13)",
            "per-CPU counters fall back to locked ones: about 4 ns more a hit",
        ),
    }
}

fn rseq_of_libc(facts: &Facts) -> Check {
    let remedy = "threads without rseq count with locked instructions: about 4 ns more a hit";
    match &facts.libc {
        Some((path, true)) => ok(format!("rseq registered by {path}")),
        Some((path, false)) => warn(format!("{path} registers no rseq (glibc 2.35 does)"), remedy),
        None => warn("C library not found; whether targets have rseq is asked at attach", remedy),
    }
}

fn cpu_flags(facts: &Facts) -> Check {
    let flags = facts.cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    let missing: Vec<&str> =
        ["bmi2", "constant_tsc", "nonstop_tsc"].into_iter().filter(|f| !has(f)).collect();
    if missing.is_empty() {
        ok("CPU flags bmi2, constant_tsc, nonstop_tsc")
    } else {
        warn(format!("CPU flags without {}", missing.join(", ")), "works; shifts or time stamps cost more")
    }
}

fn clock_source(facts: &Facts) -> Check {
    match facts.clock_source.as_deref().map(str::trim) {
        Some("tsc") => ok("clock source tsc"),
        other => warn(
            format!("clock source {}", other.unwrap_or("unknown")),
            "nsecs then comes from the vDSO's clock: about 30 ns instead of 10 a reading",
        ),
    }
}

fn bpf(facts: &Facts) -> Check {
    let capable = facts.may_load();
    let note = "needed by events of the kernel and --engine kernel";
    match (&facts.unprivileged_bpf, capable, facts.uprobes) {
        (None, _, _) => warn("no bpf(2)", note),
        (Some(_), false, _) => warn("bpf(2) is there, but not for this user (CAP_BPF and CAP_PERFMON)", note),
        (Some(_), true, None) => warn("no uprobes in this kernel (CONFIG_UPROBE_EVENTS)", note),
        (Some(_), true, Some(how)) => {
            ok(format!("bpf(2), for events of the kernel and --engine kernel: uprobes by {how}"))
        }
    }
}

/// How the kernel has uprobes, as far as this user may ask.
fn uprobes() -> Option<&'static str> {
    match weir_kernel::Features::of_kernel() {
        weir_kernel::Features { session: Some(_), .. } => Some("links of many, with sessions"),
        weir_kernel::Features { multi: true, .. } => Some("links of many"),
        _ => fs::exists("/sys/bus/event_source/devices/uprobe").unwrap_or(false).then_some("perf events"),
    }
}

fn policy(facts: &Facts) -> Check {
    match &facts.policies {
        Ok(policies) if policies.is_empty() => {
            ok(format!("no policy in {SYSTEM_POLICY}: what the kernel allows may be traced"))
        }
        Ok(policies) => ok(policies.join("; ")),
        Err(mistake) => no(mistake.clone(), "until the file is mended, nothing is traced"),
    }
}

impl Facts {
    /// Programs can be loaded into the kernel.
    fn may_load(&self) -> bool {
        self.has_capability(CAP_SYS_ADMIN) || self.has_capability(CAP_BPF) && self.has_capability(CAP_PERFMON)
    }

    fn status_field(&self, name: &str) -> Option<&str> {
        let line = self.status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    }

    fn has_capability(&self, number: u32) -> bool {
        let effective = self.status_field("CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        effective.is_some_and(|mask| mask >> number & 1 == 1)
    }
}

/// A kernel's major and minor number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Version(u32, u32);

impl Version {
    /// Of a release such as `6.1.0-18-amd64`.
    fn parse(release: &str) -> Option<Version> {
        let mut parts = release.split(|c: char| !c.is_ascii_digit());
        Some(Version(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

fn policies() -> Result<Vec<String>, String> {
    Rules::in_force(None).map(|rules| rules.summary()).map_err(|failure| failure.to_string())
}

/// The C library in a process's mappings, and whether it has the symbol through which glibc publishes its rseq
/// area. glibc keeps that symbol in its dynamic linker.
fn libc_of(maps: &str) -> Option<(String, bool)> {
    let libraries = c_library_files(maps);
    let has_rseq = |path: &&String| fs::read(path).is_ok_and(|bytes| has_rseq_symbol(&bytes));
    match libraries.iter().find(has_rseq) {
        Some(path) => Some((path.clone(), true)),
        None => libraries.into_iter().next().map(|path| (path, false)),
    }
}

/// The files of a C library and its dynamic linker among mappings, each once.
fn c_library_files(maps: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for path in maps.lines().filter_map(|line| line.split_whitespace().nth(5)) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_libc = ["libc.so", "libc-", "ld-linux", "ld-musl"].iter().any(|start| name.starts_with(start));
        if is_libc && !files.iter().any(|file| file == path) {
            files.push(path.to_string());
        }
    }
    files
}

fn has_rseq_symbol(library: &[u8]) -> bool {
    let name = b"\0__rseq_offset\0";
    library.windows(name.len()).any(|window| window == name)
}

fn seal_memfd() -> Result<(), Errno> {
    let file = memfd_create(c"weir-doctor", MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_CLOEXEC)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW)).map(drop)
}

/// Seizes a child that reads from a pipe until it is closed, and lets it go by ending it.
fn seize_child() -> Result<(), String> {
    // Either reads its standard input. In an empty root there is weir alone.
    let program = ["/bin/cat", "/proc/self/exe"].into_iter().find(|path| fs::exists(path).unwrap_or(false));
    let program = program.unwrap_or("/bin/cat");
    let child = Command::new(program).arg("-").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = child.map_err(|error| format!("cannot start {program}: {error}"))?;
    let seized = ptrace::seize(Pid::from_raw(child.id() as i32), ptrace::Options::empty());
    let _ = child.kill();
    let _ = child.wait();
    seized.map_err(|errno| format!("PTRACE_SEIZE: {errno}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_CAPABILITIES: &str =
        "Name:\tweir\nCapEff:\t000001ffffffffff\nSeccomp:\t0\nSeccomp_filters:\t0\n";
    const NO_CAPABILITIES: &str = "CapEff:\t0000000000000000\nSeccomp:\t2\n";

    fn good() -> Facts {
        Facts {
            machine: "x86_64".to_string(),
            release: "6.1.0-18-amd64".to_string(),
            status: ALL_CAPABILITIES.to_string(),
            yama: Some("1\n".to_string()),
            seize_child: Ok(()),
            memfd: Ok(()),
            memfd_noexec: Some("0\n".to_string()),
            libc: Some(("/lib/libc.so.6".to_string(), true)),
            cpuinfo: "processor\t: 0\nflags\t\t: fpu bmi2 constant_tsc nonstop_tsc\n".to_string(),
            clock_source: Some("tsc\n".to_string()),
            unprivileged_bpf: Some("2\n".to_string()),
            uprobes: Some("links of many"),
            lacks: Vec::new(),
            policies: Ok(Vec::new()),
        }
    }

    #[test]
    fn a_good_machine_has_no_remedies() {
        for check in checks(&good()) {
            assert_eq!((check.verdict, check.remedy), (Verdict::Ok, None), "{check}");
        }
    }

    fn check_fault(spoil: impl FnOnce(&mut Facts), want: &str) {
        let mut facts = good();
        spoil(&mut facts);
        let faults: Vec<String> = checks(&facts)
            .iter()
            .filter(|check| check.verdict != Verdict::Ok)
            .map(Check::to_string)
            .collect();
        assert!(faults.iter().any(|fault| fault.starts_with(want)), "{want}: {faults:#?}");
        assert!(faults.iter().all(|fault| fault.contains(" — ")), "each has a remedy: {faults:#?}");
    }

    #[test]
    fn each_fault_has_its_line_and_remedy() {
        check_fault(|f| f.machine = "aarch64".to_string(), "no    processor is \"aarch64\"");
        check_fault(|f| f.release = "4.19.0".to_string(), "no    kernel 4.19.0");
        check_fault(|f| f.release = "nonsense".to_string(), "no    kernel nonsense");
        check_fault(|f| f.release = "5.10.0".to_string(), "warn  PTRACE_GET_RSEQ_CONFIGURATION");
        check_fault(|f| f.status = NO_CAPABILITIES.to_string(), "warn  ptrace of running processes");
        check_fault(|f| f.status = NO_CAPABILITIES.to_string(), "warn  a seccomp filter");
        check_fault(|f| f.yama = Some("3\n".to_string()), "no    ptrace of running processes");
        check_fault(
            |f| (f.yama, f.status) = (Some("2".to_string()), NO_CAPABILITIES.to_string()),
            "no    ptrace of running processes",
        );
        check_fault(|f| f.seize_child = Err("PTRACE_SEIZE: EPERM".to_string()), "no    ptrace of a child");
        check_fault(|f| f.memfd = Err("ENOSYS".to_string()), "no    memfd with sealing: ENOSYS");
        check_fault(|f| f.memfd_noexec = Some("2".to_string()), "no    vm.memfd_noexec 2");
        check_fault(|f| f.libc = None, "warn  C library not found");
        check_fault(|f| f.libc = Some(("/lib/x".to_string(), false)), "warn  /lib/x registers no rseq");
        check_fault(
            |f| f.cpuinfo = "flags : fpu constant_tsc nonstop_tsc".to_string(),
            "warn  CPU flags without bmi2",
        );
        check_fault(|f| f.clock_source = Some("hpet".to_string()), "warn  clock source hpet");
        check_fault(|f| f.unprivileged_bpf = None, "warn  no bpf(2)");
        check_fault(|f| f.uprobes = None, "warn  no uprobes in this kernel");
        let lack = weir_kernel::Lack { what: "no kprobes", instead: "tracepoints stand in" };
        check_fault(move |f| f.lacks = vec![lack], "warn  no kprobes — tracepoints stand in");
        check_fault(|f| f.policies = Err("policy p: wrong".to_string()), "no    policy p: wrong");
    }

    #[test]
    fn kernel_versions_order_by_number() {
        let parse = |release| Version::parse(release).unwrap();
        assert!(parse("5.13.0") >= KERNEL_MIN);
        assert!(parse("5.9.16-rc1") < KERNEL_MIN);
        assert!(parse("10.0") > KERNEL_MIN);
        assert_eq!(Version::parse("6"), None);
    }

    #[test]
    fn c_libraries_are_found_among_mappings() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n\
                    7f02-7f03 r--p 00001000 08:01 12 /usr/lib/libc.so.6\n\
                    7f04-7f05 r-xp 00000000 08:01 13 /usr/lib/ld-linux-x86-64.so.2\n\
                    7f06-7f07 rw-p 00000000 00:00 0\n\
                    7f08-7f09 r-xp 00000000 08:01 14 /usr/lib/libcurl.so.4\n";
        assert_eq!(c_library_files(maps), ["/usr/lib/libc.so.6", "/usr/lib/ld-linux-x86-64.so.2"]);
        assert!(has_rseq_symbol(b"x\0__rseq_offset\0y"));
        assert!(!has_rseq_symbol(b"x\0__rseq_offsets\0y"));
    }

    #[test]
    fn this_machine_can_be_examined() {
        let facts = Facts::gather();
        assert!(!facts.release.is_empty());
        assert!(!facts.status.is_empty());
        assert_eq!(checks(&Facts { lacks: Vec::new(), ..facts }).len(), 14);
    }
}
