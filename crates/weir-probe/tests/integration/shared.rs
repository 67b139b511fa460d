//! One session's maps in several processes: what they count adds up, each is restored for itself, and nothing of it stays
//! in them. What a weir of another version has left in a process is restored, and never adopted.

use crate::counting;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use testkit::Daemon;
use testkit::target::{self, Source};
use weir_ebpf::{MapKind, MapSpec};
use weir_probe::{
    Attach, Attachment, Error, SiteRequest, Target, When, limits, plan_functions, prepare, restore, scan,
};
use weir_rt::abi::{ABI_VERSION, header};
use weir_rt::segment::{Identity, Segment};
use weir_symbols::{Binary, maps};

use crate::counting::{count, counting};

const DEADLINE: Duration = Duration::from_secs(120);

/// Calls `work` as often as each line says. With an argument: it leaves itself room for so many more descriptors; with `maps`, for no more
/// mappings.
const SERVER: &str = r#"
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/resource.h>
    #include <unistd.h>
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    static void split(size_t pages) {
        char *all = mmap(0, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (size_t at = 0; at < pages && !mprotect(all + at * 4096, 4096, PROT_READ); at += 2);
        while (mmap(0, 4096, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    }
    int main(int argc, char **argv) {
        char line[32];
        alarm(600);
        setvbuf(stdout, 0, _IOLBF, 0);
        if (argc > 1 && !strcmp(argv[1], "maps")) split(4000000);
        else if (argc > 1) {
            int next = dup(0);
            close(next);
            struct rlimit most = { next + atoi(argv[1]), next + atoi(argv[1]) };
            setrlimit(RLIMIT_NOFILE, &most);
        }
        puts("ready");
        while (fgets(line, sizeof line, stdin)) {
            for (long n = atol(line); n > 0; n--) if (work(2) != 7) return 9;
            puts("done");
        }
        return 0;
    }
"#;

struct Server {
    daemon: Daemon,
    path: PathBuf,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let path = target::build("shared-server", Source::Text(SERVER), &["-O2"]);
        let mut command = Command::new(&path);
        command.args(arguments);
        let mut daemon = Daemon::spawn(command).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Server { daemon, path }
    }

    fn pid(&self) -> i32 {
        self.daemon.pid() as i32
    }

    fn call(&mut self, times: u64) {
        self.daemon.write(&format!("{times}\n")).unwrap();
        self.daemon.line_with("done", DEADLINE).unwrap();
    }

    fn arm(&self, maps: &Arc<Segment>, identity: &Identity) -> Result<Attachment, Error> {
        let binary = Binary::open(&self.path).unwrap();
        let function = binary.find("work").unwrap()[0];
        let windows = plan_functions(&[(&binary, function)]);
        let journal = counting::control(limits::WRITES_PER_SITE_MAX + limits::HOOKS_MAX);
        let prepared = prepare(Target::open(self.pid())?, maps, journal, identity)?;
        let site = SiteRequest {
            binary: &binary,
            function,
            window: &windows[0],
            called: None,
            semaphore: None,
            programs: vec![Attach { executable: 0, cookie: 0, when: When::Entry }],
            returns: None,
        };
        prepared.arm(&[site], &[counting(0)])
    }

    /// By a weir that lives, which is this process.
    fn traced(&self, maps: &Arc<Segment>) -> Attachment {
        self.arm(maps, &counting::identity(self.pid())).unwrap()
    }

    /// By one that is gone.
    fn left_traced(&self, maps: &Arc<Segment>) {
        let identity = Identity { controller_start: 1, ..counting::identity(self.pid()) };
        std::mem::forget(self.arm(maps, &identity).unwrap());
    }

    fn is_patched(&self) -> bool {
        let binary = Binary::open(&self.path).unwrap();
        let function = binary.find("work").unwrap()[0];
        let mappings = maps::read(self.pid() as u32).unwrap();
        let identity = binary.identity().unwrap();
        let at = maps::to_virtual(&mappings, identity, &binary, function.address).unwrap();
        let mut bytes = vec![0; function.size as usize];
        self.memory().read_exact_at(&mut bytes, at.0).unwrap();
        Some(&bytes[..]) != binary.bytes(function.address, bytes.len())
    }

    /// Nothing of weir's is in it.
    fn is_as_before(&mut self, descriptors: usize) {
        assert!(!self.is_patched());
        let mappings = fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        assert!(!mappings.contains("memfd:weir"), "{mappings}");
        assert_eq!(self.descriptors(), descriptors);
        self.call(1);
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    fn memory(&self) -> fs::File {
        fs::File::options().read(true).write(true).open(format!("/proc/{}/mem", self.pid())).unwrap()
    }

    /// Makes its segments those of another version.
    fn set_version(&self, version: u32) {
        let mappings = maps::read(self.pid() as u32).unwrap();
        let segments = mappings.iter().filter(|mapping| {
            mapping.path.starts_with("/memfd:weir-segment") || mapping.path.starts_with("/memfd:weir-maps")
        });
        let mut count = 0;
        for mapping in segments {
            let at = mapping.start.0 + header::ABI_VERSION as u64;
            self.memory().write_all_at(&version.to_le_bytes(), at).unwrap();
            count += 1;
        }
        assert_eq!(count, 2, "its own segment and the session's maps");
    }
}

fn session() -> Arc<Segment> {
    counting::maps(&[MapSpec::new("count", MapKind::Array, 4, 8, 1)])
}

fn counted(maps: &Segment) -> u64 {
    let value = maps.map(0).lookup(&0u32.to_le_bytes()).unwrap();
    u64::from_le_bytes(value.try_into().unwrap())
}

#[test]
fn what_processes_of_a_session_count_adds_up() {
    let (mut a, mut b) = (Server::start(&[]), Server::start(&[]));
    let descriptors = [a.descriptors(), b.descriptors()];
    let maps = session();
    let (mut first, mut second) = (a.traced(&maps), b.traced(&maps));
    a.call(1000);
    b.call(2345);
    a.call(7);
    assert_eq!(counted(&maps), 3352);
    assert_eq!((count(&first), count(&second)), (3352, 3352));
    assert_eq!(first.detach().unwrap().restored, 1);
    a.is_as_before(descriptors[0]);
    b.call(48);
    assert_eq!(counted(&maps), 3400);
    assert_eq!(second.detach().unwrap().restored, 1);
    b.is_as_before(descriptors[1]);
    assert_eq!(counted(&maps), 3400);
}

#[test]
fn each_process_of_a_session_whose_weir_is_gone_is_restored_for_itself() {
    let (mut a, mut b) = (Server::start(&[]), Server::start(&[]));
    let descriptors = [a.descriptors(), b.descriptors()];
    let maps = session();
    a.left_traced(&maps);
    b.left_traced(&maps);
    assert_eq!(restore::detach(a.pid()).unwrap().restored, 1);
    a.is_as_before(descriptors[0]);
    b.call(5);
    assert_eq!(counted(&maps), 5);
    // The next weir takes over.
    let next = session();
    let mut attachment = b.traced(&next);
    b.call(6);
    assert_eq!((counted(&maps), counted(&next)), (5, 6));
    attachment.detach().unwrap();
    b.is_as_before(descriptors[1]);
}

#[test]
fn what_another_version_has_left_behind_is_restored() {
    for version in [ABI_VERSION - 1, ABI_VERSION + 1] {
        let mut server = Server::start(&[]);
        let descriptors = server.descriptors();
        server.left_traced(&session());
        server.set_version(version);
        let probed = scan::probed(server.pid()).unwrap().unwrap();
        assert_eq!((probed.other_version, probed.controller_alive), (Some(version), false));
        let report = restore::detach(server.pid()).unwrap();
        assert_eq!((report.restored, report.other_version), (1, Some(version)));
        server.is_as_before(descriptors);
        // By the next attach too.
        let old = session();
        server.left_traced(&old);
        server.set_version(version);
        let maps = session();
        let mut attachment = server.traced(&maps);
        server.call(9);
        assert_eq!((counted(&old), counted(&maps)), (0, 9));
        attachment.detach().unwrap();
        server.is_as_before(descriptors);
    }
}

#[test]
fn a_process_that_a_living_weir_of_another_version_traces_is_refused() {
    for version in [ABI_VERSION - 1, ABI_VERSION + 1] {
        let mut server = Server::start(&[]);
        let maps = session();
        let mut attachment = server.traced(&maps);
        server.set_version(version);
        let probed = scan::probed(server.pid()).unwrap().unwrap();
        assert_eq!((probed.other_version, probed.controller_alive), (Some(version), true));
        let refused = server.arm(&session(), &counting::identity(server.pid())).unwrap_err();
        let Error::OtherVersion { controller, version: told, .. } = refused else { panic!("{refused}") };
        assert_eq!((controller, told), (std::process::id(), version));
        server.call(4);
        assert_eq!(counted(&maps), 4, "it is traced as before");
        attachment.detach().unwrap();
        server.call(1);
        assert_eq!(counted(&maps), 4);
    }
}

#[test]
fn a_process_without_room_for_descriptors_is_refused_and_left_as_it_was() {
    for (room, call) in [("0", "memfd_create"), ("1", "socketpair")] {
        let mut server = Server::start(&[room]);
        let descriptors = server.descriptors();
        let error = server.arm(&session(), &counting::identity(server.pid())).unwrap_err();
        assert!(matches!(&error, Error::Remote { call: failed, .. } if *failed == call), "{error}");
        server.is_as_before(descriptors);
    }
    let mut server = Server::start(&["2"]);
    let maps = session();
    let mut attachment = server.traced(&maps);
    server.call(3);
    assert_eq!(counted(&maps), 3);
    attachment.detach().unwrap();
}

#[test]
fn a_process_without_room_for_mappings_is_refused_by_that() {
    let server = Server::start(&["maps"]);
    let error = server.arm(&session(), &counting::identity(server.pid())).unwrap_err();
    let Error::TooManyMappings { count, max, .. } = error else { panic!("{error}") };
    assert!(count + 16 > max, "{count} of {max}");
    let mut server = server;
    server.call(2);
}
