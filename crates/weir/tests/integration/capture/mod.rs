//! `weir capture`: through the command line, on interfaces of a namespace of its own, and on files.

mod dpdk;
mod ends;
mod extcap;
mod files;
mod live;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::netns::Namespace;
use testkit::skip::skip;
use testkit::{paths, wait};
use weir_pcapng::{Event, PacketFlags, Reader, Statistics};

/// How long anything may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Our frames, and no others.
const OURS: &str = "ether host 02:00:00:00:00:02";

/// A namespace; none, and said so, where this machine has none.
fn namespace() -> Option<Namespace> {
    match Namespace::with_pair() {
        Ok(namespace) => Some(namespace),
        Err(reason) => {
            skip("capture-namespace", reason);
            None
        }
    }
}

/// A folder of its own for each call.
fn folder(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = paths::fresh("capture", &format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A frame with a number, of so many bytes at least 18, with a tag before its type if asked for.
fn frame(number: u32, bytes: usize, tag: Option<u16>) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if let Some(tag) = tag {
        frame.extend([0x81, 0]);
        frame.extend(tag.to_be_bytes());
    }
    // The EtherType for experiments.
    frame.extend([0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(bytes.max(frame.len()), number as u8);
    frame
}

/// The number of a frame without a tag.
fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[14..18].try_into().unwrap())
}

/// A capture that runs.
struct Running {
    child: Child,
}

impl Running {
    /// `weir capture` in a namespace, which writes to `path`, and captures already.
    fn start(namespace: &Namespace, arguments: &[&str], path: &Path) -> Running {
        let mut command = namespace.command(WEIR);
        command.arg("capture").args(arguments).arg("-w").arg(path);
        let running = Running::of(command);
        // It is made after sockets were bound.
        assert!(wait::until(LIMIT, || path.exists()), "no capture begins");
        running
    }

    fn of(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running { child: command.spawn().unwrap() }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// What it says until it ends by itself.
    #[track_caller]
    fn output(mut self) -> Output {
        if wait::for_exit(&mut self.child, LIMIT).is_none() {
            self.child.kill().unwrap();
            panic!("it has not ended: {:?}", self.child.wait_with_output());
        }
        self.child.wait_with_output().unwrap()
    }

    /// Ends it with SIGINT; what it has said on standard error.
    #[track_caller]
    fn interrupt(self) -> String {
        self.signal(Signal::SIGINT);
        let output = self.output();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{message}");
        message
    }
}

/// A packet of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Packet {
    interface: usize,
    time: u64,
    wire_len: u32,
    bytes: Vec<u8>,
    flags: Option<PacketFlags>,
    drops: u64,
}

/// What is in a file.
#[derive(Default, Debug)]
struct Contents {
    packets: Vec<Packet>,
    statistics: Vec<Statistics>,
    interfaces: Vec<weir_pcapng::Interface>,
}

/// A file that is whole.
#[track_caller]
fn contents(path: &Path) -> Contents {
    contents_of(&std::fs::read(path).unwrap())
}

#[track_caller]
fn contents_of(file: &[u8]) -> Contents {
    let mut reader = Reader::new(file).unwrap();
    let mut contents = Contents::default();
    while let Some(event) = reader.next().unwrap() {
        match event {
            Event::Packet(packet) => contents.packets.push(Packet {
                interface: packet.interface.index(),
                time: packet.time.unwrap(),
                wire_len: packet.wire_len,
                bytes: packet.bytes.to_vec(),
                flags: packet.fields.flags(),
                drops: packet.fields.drop_count().unwrap_or(0),
            }),
            Event::Statistics(_, statistics) => contents.statistics.push(statistics.clone()),
            Event::Interface(_, interface) => contents.interfaces.push(interface.clone()),
            _ => {}
        }
    }
    contents
}

/// A file up to the end of its last whole block.
fn whole_blocks(file: &[u8]) -> &[u8] {
    let mut end = 0;
    while let Some(length) = file.get(end + 4..end + 8) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        if end + length > file.len() {
            break;
        }
        end += length;
    }
    &file[..end]
}

/// How many whole packets a file has so far.
fn count(path: &Path) -> usize {
    let Ok(file) = std::fs::read(path) else { return 0 };
    let Ok(mut reader) = Reader::new(&file[..]) else { return 0 };
    let mut count = 0;
    while let Ok(Some(event)) = reader.next() {
        count += usize::from(matches!(event, Event::Packet(_)));
    }
    count
}

/// Runs `weir capture` to its end.
fn captured(arguments: &[&str]) -> Output {
    Command::new(WEIR).arg("capture").args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs it: it ends with `code`, and says each of `parts` on standard error.
#[track_caller]
fn check(arguments: &[&str], code: i32, parts: &[&str]) {
    said(&captured(arguments), code, parts);
}

#[track_caller]
fn said(output: &Output, code: i32, parts: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }
}
