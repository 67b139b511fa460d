//! A redis-server of the test's own, load for it, and a weir that traces it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{Daemon, wait};
use weir_symbols::{Binary, maps};

use crate::life::worker::BEGUN;

const DEADLINE: Duration = Duration::from_secs(120);

/// A redis-server on a port of loopback.
#[derive(Debug)]
pub(crate) struct Redis {
    server: Daemon,
    port: u16,
    /// Each probed binary, with the function of it.
    functions: Vec<(Binary, String)>,
}

impl Redis {
    /// None, with a loud skip, where it is not installed.
    pub(crate) fn start(test: &str) -> Option<Redis> {
        let programs = ["/usr/bin/redis-server", "/usr/bin/redis-benchmark"];
        let libjemalloc = "/lib/x86_64-linux-gnu/libjemalloc.so.2";
        if let Some(missing) = programs.iter().chain([&libjemalloc]).find(|path| !Path::new(path).exists()) {
            testkit::skip::skip(test, format!("{missing} is not installed"));
            return None;
        }
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new(programs[0]);
        command.args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        let server = Daemon::spawn(command).unwrap();
        let functions = [(programs[0], "processCommand"), (libjemalloc, "malloc")].map(|(path, name)| {
            (Binary::open(&std::fs::canonicalize(path).unwrap()).unwrap(), name.to_owned())
        });
        let redis = Redis { server, port, functions: functions.into() };
        assert!(wait::until(DEADLINE, || redis.answers()), "redis-server does not answer");
        Some(redis)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.server.pid() as i32
    }

    pub(crate) fn answers(&self) -> bool {
        self.ask("PING\r\n").is_some_and(|answer| answer.starts_with("+PONG"))
    }

    /// `total_commands_processed`.
    pub(crate) fn commands_processed(&self) -> u64 {
        let info = self.ask("INFO stats\r\n").expect("redis-server answers");
        let value = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("no such line in {info}"))
    }

    /// The bytes of the probed functions, as they stand in the process.
    pub(crate) fn text(&self) -> Vec<Vec<u8>> {
        let pid = self.pid() as u32;
        let mappings = maps::read(pid).unwrap();
        let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        let bytes = |(binary, name): &(Binary, String)| {
            let function = binary.find(name).unwrap()[0];
            let identity = binary.identity().unwrap();
            let at = maps::to_virtual(&mappings, identity, binary, function.address).unwrap();
            let mut bytes = vec![0; function.size as usize];
            memory.read_exact_at(&mut bytes, at.0).unwrap();
            bytes
        };
        self.functions.iter().map(bytes).collect()
    }

    /// The bytes of the probed functions as their files have them.
    pub(crate) fn text_of_files(&self) -> Vec<Vec<u8>> {
        let bytes = |(binary, name): &(Binary, String)| {
            let function = binary.find(name).unwrap()[0];
            binary.bytes(function.address, function.size as usize).unwrap().to_vec()
        };
        self.functions.iter().map(bytes).collect()
    }

    pub(crate) fn load(&self) -> Load {
        let mut command = Command::new("/usr/bin/redis-benchmark");
        // Bounded: about ten minutes of load at most on an idle machine; the test ends it long before.
        command.args(["-p", &self.port.to_string(), "-t", "set,get", "-n", "30000000", "-c", "8", "-q"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Load { child: command.spawn().unwrap() }
    }

    /// Waits until it has processed so many commands more.
    pub(crate) fn has_processed(&self, commands: u64) {
        let before = self.commands_processed();
        let is_done = || self.commands_processed() >= before + commands;
        assert!(wait::until(DEADLINE, is_done), "the load stands still");
    }

    fn ask(&self, request: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        // A status line, or a bulk string whose length stands in its first line.
        loop {
            let length = stream.read(&mut buffer).ok()?;
            if length == 0 {
                return None;
            }
            answer.extend_from_slice(&buffer[..length]);
            let text = String::from_utf8_lossy(&answer).into_owned();
            let Some((first, rest)) = text.split_once("\r\n") else { continue };
            match first.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) {
                Some(length) if rest.len() < length + 2 => {}
                _ => return Some(text),
            }
        }
    }
}

/// A redis-benchmark; killed when dropped.
#[derive(Debug)]
pub(crate) struct Load {
    child: Child,
}

impl Load {
    /// Stops the load, and waits until what was under way is answered.
    pub(crate) fn pause(&mut self, redis: &Redis) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGSTOP).unwrap();
        // Until then it may be on its way out of a write.
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let is_stopped = || stat().rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
        assert!(wait::until(DEADLINE, is_stopped), "{}", stat());
        let mut last = redis.commands_processed();
        let is_quiet = || {
            // Between two looks: what the server has read it has answered, so that the verdict does not depend on it.
            std::thread::sleep(Duration::from_millis(5));
            let now = redis.commands_processed();
            let is_quiet = now == last + 1;
            last = now;
            is_quiet
        };
        assert!(wait::until(DEADLINE, is_quiet), "the load does not stop");
    }

    pub(crate) fn resume(&self) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGCONT).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A weir that traces the server.
#[derive(Debug)]
pub(crate) struct Traced {
    weir: Daemon,
    out: PathBuf,
}

impl Traced {
    /// Returns once the probes are in place.
    pub(crate) fn start(redis: &Redis, name: &str, script: &str) -> Traced {
        let folder = testkit::paths::target().join("trace-tests");
        std::fs::create_dir_all(&folder).unwrap();
        let out = folder.join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&out);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let script = format!("{BEGUN} {script}");
        command.args(["trace", "-e", &script, "-p", &redis.pid().to_string(), "-o"]).arg(&out);
        let mut weir = Daemon::spawn(command).unwrap();
        let has_begun = || std::fs::read_to_string(&out).is_ok_and(|text| text.contains("begun\n"));
        if !wait::until(DEADLINE, || has_begun() || !weir.is_running()) || !has_begun() {
            panic!("never armed: {:?}", weir.finish(DEADLINE));
        }
        let (text, files) = (redis.text(), redis.text_of_files());
        assert!(text.iter().zip(&files).all(|(text, file)| text != file), "it is not patched");
        let of_this_weir = |line: &str| line.split_whitespace().nth(2) == Some(&weir.pid().to_string());
        assert!(listed().lines().any(of_this_weir), "{}", listed());
        Traced { weir, out }
    }

    /// Ends it as Ctrl-C does; what it printed.
    pub(crate) fn stop(self) -> String {
        self.weir.signal(Signal::SIGINT).unwrap();
        let ended = self.weir.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{}: {}", ended.status, ended.stderr);
        let text = std::fs::read_to_string(&self.out).unwrap();
        std::fs::remove_file(&self.out).unwrap();
        text
    }
}

/// What `weir ps` prints: process, command, weir, and so on.
fn listed() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).arg("ps").output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The number that follows `name: ` in weir's output.
pub(crate) fn number(text: &str, name: &str) -> u64 {
    let prefix = format!("{name}: ");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or_else(|| panic!("no `{name}` in:\n{text}"))
}
