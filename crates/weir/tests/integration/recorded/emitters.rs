//! The program of many emitters: how it is started, what its ledger says, and what each of its events carries.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{paths, target};

/// Nothing takes longer than this but on a machine that does much else.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Bytes of the ledger before its emitters, and of each of them.
const HEAD_BYTES: usize = 64;
const EMITTER_BYTES: usize = 64;

/// What the program is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) threads: u64,
    /// Events of each thread; 0: without end.
    pub(crate) count: u64,
    pub(crate) children: u64,
    /// Events of each child.
    pub(crate) events: u64,
    pub(crate) signals_us: u64,
    pub(crate) pause_us: u64,
}

/// What an emitter says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Emitter {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Events that it has begun to emit, and that it has emitted: one less at most.
    pub(crate) begun: u64,
    pub(crate) done: u64,
}

/// What the program says that it emitted, while it runs or afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ledger {
    pub(crate) pid: i32,
    pub(crate) emitters: Vec<Emitter>,
}

/// A folder of a test's own that is not there yet, and goes with it unless the test fails.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        let folder = paths::fresh("recorded", name);
        fs::create_dir_all(&folder).unwrap();
        Place(folder)
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.0.join("ledger")
    }

    pub(crate) fn trace(&self) -> PathBuf {
        self.0.join("trace")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

impl Plan {
    /// The words of the command.
    pub(crate) fn command(&self, place: &Place) -> Vec<String> {
        let Plan { threads, count, children, events, signals_us, pause_us } = *self;
        let numbers =
            [threads, count, children, events, signals_us, pause_us].map(|number| number.to_string());
        let program = target::program("emitters").display().to_string();
        [program, place.ledger().display().to_string()].into_iter().chain(numbers).collect()
    }

    /// All that the emitters emit that do not depend on chance: threads and children, without their handlers.
    pub(crate) fn is_done(&self, ledger: &Ledger) {
        // Of each there are three, of which the first is no handler.
        assert_eq!(ledger.emitters.len() as u64, 3 * (self.threads + self.children), "{ledger:?}");
        let own: Vec<u64> = ledger.emitters.iter().step_by(3).map(|emitter| emitter.done).collect();
        let of = |count: u64| own.iter().filter(|done| **done == count).count() as u64;
        let expected = match self.count == self.events {
            true => of(self.count) == self.threads + self.children,
            false => (of(self.count), of(self.events)) == (self.threads, self.children),
        };
        assert!(expected, "{self:?}: {own:?}");
        assert!(ledger.emitters.iter().all(|emitter| emitter.begun == emitter.done), "{ledger:?}");
    }
}

impl Ledger {
    /// `None`: the program has not made it yet.
    pub(crate) fn read(path: &Path) -> Option<Ledger> {
        let file = File::open(path).ok()?;
        let mut bytes = vec![0; HEAD_BYTES + 1000 * EMITTER_BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let emitter = |number: usize| {
            let at = HEAD_BYTES + number * EMITTER_BYTES;
            Emitter { pid: half(at), tid: half(at + 4), begun: word(at + 8), done: word(at + 16) }
        };
        let emitters = (0..word(0) as usize).map(emitter).collect();
        Some(Ledger { pid: word(8) as i32, emitters })
    }

    /// Events that were emitted, by name.
    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for emitter in &self.emitters {
            for (name, of) in [("emit:text", 5), ("emit:blob", 11)] {
                // Each sixteenth, from that one on.
                *sums.entry(name).or_default() += (emitter.done + 15 - of) / 16;
            }
        }
        let others: u64 = sums.values().sum();
        sums.insert("emit:small", self.done() - others);
        sums
    }

    pub(crate) fn done(&self) -> u64 {
        self.emitters.iter().map(|emitter| emitter.done).sum()
    }
}

/// weir with these arguments.
pub(crate) fn weir<T: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = T>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args);
    command
}

/// What event `n` of an emitter carries behind these two numbers.
pub(crate) enum Fields {
    Small { mark: u64, half: i16 },
    Text { word: String, numbers: Vec<u16> },
    Blob { bytes: [u8; 16], ratio: f64 },
}

pub(crate) fn fields(emitter: u64, n: u64) -> Fields {
    match n % 16 {
        5 => {
            let word = char::from(b'a' + (n % 26) as u8).to_string().repeat((n % 19 + 1) as usize);
            Fields::Text { word, numbers: (0..n % 6).map(|i| (n + i * 1000) as u16).collect() }
        }
        11 => {
            let bytes = std::array::from_fn(|i| (n * 3 + i as u64 + emitter) as u8);
            Fields::Blob { bytes, ratio: (n % 4000) as f64 / 4.0 }
        }
        _ => {
            let mark = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ emitter;
            Fields::Small { mark, half: (n as i64 * 7 - emitter as i64) as i16 }
        }
    }
}

impl Fields {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Fields::Small { .. } => "emit:small",
            Fields::Text { .. } => "emit:text",
            Fields::Blob { .. } => "emit:blob",
        }
    }

    /// As babeltrace2 prints them.
    pub(crate) fn text(&self) -> String {
        let list = |elements: Vec<String>| match elements.is_empty() {
            true => "[ ]".to_owned(),
            false => format!("[ {} ]", elements.join(", ")),
        };
        match self {
            Fields::Small { mark, half } => format!("mark = 0x{mark:X}, half = {half}"),
            Fields::Text { word, numbers } => {
                let all = numbers.iter().enumerate().map(|(index, number)| format!("[{index}] = {number}"));
                let count = numbers.len();
                format!("word = \"{word}\", _numbers_length = {count}, numbers = {}", list(all.collect()))
            }
            Fields::Blob { bytes, ratio } => {
                let all = bytes.iter().enumerate().map(|(index, byte)| format!("[{index}] = {byte}"));
                // Quarters below a thousand have five digits, all of which `%g` shows.
                format!("bytes = {}, ratio = {ratio}", list(all.collect()))
            }
        }
    }
}
