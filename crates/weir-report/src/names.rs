//! Names: what values print as that stand for something else.
//!
//! Attach cookies are named by the schema's sites. Addresses of processes and the numbers of stacks are named by whoever
//! knows the processes: a [`Symbols`], which the report is given and which it never looks behind. What nobody knows prints
//! as its address.

use std::fmt;

use weir_event::ctype::{CType, CTypes};
use weir_event::{SiteName, StackForm, StackId, StackMode, Word};

use crate::value::Value;
use crate::{isa, words};

/// Whoever knows processes and their stacks.
pub trait Symbols {
    /// What is at `address` of process `pid`.
    fn symbol(&self, pid: u32, address: u64, seen: Seen) -> Symbol;

    /// The addresses of a stack of at most `frames` frames, innermost first; `None` where it is not there.
    fn stack(&self, frames: u32, id: StackId) -> Option<Vec<u64>>;

    /// The name of the user with this id.
    fn user(&self, id: u32) -> Option<String>;

    /// The name of the process with this id.
    fn process(&self, pid: u32) -> Option<String>;

    /// The path of the control group of version 2 with this number.
    fn cgroup(&self, number: u64) -> Option<String>;

    /// What strftime(3) makes of the local time at so many nanoseconds of CLOCK_MONOTONIC.
    fn time(&self, format: &str, at_ns: u64) -> String;
}

/// When the target saw an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Just now: it is in a record that was read from the ring.
    Now,
    /// At any time since tracing began: it is in a map.
    Sometime,
}

/// What an address belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Symbol {
    /// Its name, and the distance of the address from its start.
    pub function: Option<(String, u64)>,
    /// The file, as `perf` mode shows it.
    pub module: Option<String>,
}

/// No C types.
#[cfg(test)]
pub(crate) static NO_TYPES: std::sync::LazyLock<CTypes> = std::sync::LazyLock::new(CTypes::default);

/// Knows no process.
#[derive(Debug)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn symbol(&self, _: u32, _: u64, _: Seen) -> Symbol {
        Symbol::default()
    }

    fn stack(&self, _: u32, _: StackId) -> Option<Vec<u64>> {
        None
    }

    fn user(&self, _: u32) -> Option<String> {
        None
    }

    fn process(&self, _: u32) -> Option<String> {
        None
    }

    fn cgroup(&self, _: u64) -> Option<String> {
        None
    }

    fn time(&self, format: &str, _: u64) -> String {
        format.to_owned()
    }
}

/// What a value is decoded with.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub sites: &'a [SiteName],
    /// What C types the values are of.
    pub types: &'a CTypes,
    pub symbols: &'a dyn Symbols,
    pub seen: Seen,
}

impl fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("sites", &self.sites).field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Names<'_> {
    /// As bpftrace prints `usym`: the function alone, or the address.
    pub fn symbol(&self, pid: u32, address: u64) -> Value {
        let symbol = self.symbols.symbol(pid, address, self.seen);
        let text = symbol.function.map_or_else(|| format!("{address:#x}"), |(name, _)| name);
        Value::Str(text.into_bytes())
    }

    /// What a number stands for; the number where it is none of those.
    pub fn word(&self, of: &Word, value: u64) -> Value {
        let name = match of {
            Word::Truth if value <= 1 => return Value::Truth(value == 1),
            Word::Truth => None,
            Word::Enum(of) => {
                let label = match self.types.get(*of) {
                    CType::Enum(of) => of.label(value as i64),
                    _ => None,
                };
                let Some(label) = label else { return Value::int(value as i64) };
                return Value::Enum(value, label.to_string());
            }
            Word::Errno => words::error(value),
            Word::Signal => Some(words::signal(value)),
            Word::Syscall => isa::native::syscall(value).map(str::to_owned),
            Word::Mac => Some(words::mac(value)),
            Word::User => u32::try_from(value).ok().and_then(|id| self.symbols.user(id)),
            Word::Process => u32::try_from(value).ok().and_then(|pid| self.symbols.process(pid)),
            Word::Cgroup => self.symbols.cgroup(value),
            Word::Time { format } => Some(self.symbols.time(format, value)),
        };
        Value::Str(name.unwrap_or_else(|| (value as i64).to_string()).into_bytes())
    }

    /// A line for each frame; nothing at all where there is no stack.
    pub fn stack(&self, form: StackForm, value: u64) -> Value {
        let id = StackId::of(value);
        let addresses = id.and_then(|id| Some((id.pid, self.symbols.stack(form.frames, id)?)));
        let Some((pid, addresses)) = addresses else { return Value::Str(Vec::new()) };
        let frames = addresses.into_iter().map(|address| self.frame(form.mode, pid, address).into_bytes());
        Value::Stack { frames: frames.collect(), is_indented: form.mode == StackMode::Bpftrace }
    }

    fn frame(&self, mode: StackMode, pid: u32, address: u64) -> String {
        if mode == StackMode::Raw {
            return format!("{address:x}");
        }
        let Symbol { function, module } = self.symbols.symbol(pid, address, self.seen);
        let name = match function {
            Some((name, offset)) => format!("{name}+{offset}"),
            None => format!("{address:#x}"),
        };
        match mode {
            StackMode::Perf => {
                format!("\t{address:x} {name} ({})", module.as_deref().unwrap_or("[unknown]"))
            }
            _ => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_event::Type;

    use super::*;

    /// Process 7 with `main` at 0x1000 in `/bin/a`, a file without names at 0x2000, and one stack.
    struct Known;

    impl Symbols for Known {
        fn symbol(&self, pid: u32, address: u64, _: Seen) -> Symbol {
            let known = |start: u64| pid == 7 && (start..start + 0x1000).contains(&address);
            let module = (known(0x1000) || known(0x2000)).then(|| "/bin/a".to_string());
            Symbol { function: known(0x1000).then(|| ("main".into(), address - 0x1000)), module }
        }

        fn stack(&self, frames: u32, id: StackId) -> Option<Vec<u64>> {
            let all = [0x1010, 0x2020, 0x9999];
            (id.number == 5).then(|| all[..3.min(frames as usize)].to_vec())
        }

        fn user(&self, id: u32) -> Option<String> {
            (id == 0).then(|| "root".to_owned())
        }

        fn process(&self, pid: u32) -> Option<String> {
            (pid == 7).then(|| "a".to_owned())
        }

        fn cgroup(&self, number: u64) -> Option<String> {
            (number == 1).then(|| "unified:/".to_owned())
        }

        fn time(&self, format: &str, at_ns: u64) -> String {
            format!("{format} of {at_ns}")
        }
    }

    fn names() -> Names<'static> {
        Names { sites: &[], types: &NO_TYPES, symbols: &Known, seen: Seen::Now }
    }

    #[test]
    fn numbers_of_processes_and_groups_have_names() {
        let check =
            |of: Word, number: u64, want: &str| assert_eq!(names().word(&of, number), Value::str(want));
        check(Word::Process, 7, "a");
        check(Word::Process, 8, "8");
        check(Word::Process, u64::MAX, "-1");
        check(Word::Cgroup, 1, "unified:/");
        check(Word::Cgroup, 2, "2");
    }

    #[track_caller]
    fn check_symbol(words: [u64; 2], want: &str) {
        let bytes = words.map(u64::to_le_bytes).concat();
        assert_eq!(Value::decode(&Type::Usym, &bytes, names()), Ok(Value::str(want)));
    }

    #[test]
    fn symbols_print_their_name_alone_or_the_address() {
        check_symbol([0x1010, 7], "main");
        check_symbol([0x1010, 8], "0x1010");
        check_symbol([0x2020, 7], "0x2020");
        check_symbol([0, 0], "0x0");
    }

    #[track_caller]
    fn check_stack(mode: StackMode, frames: u32, value: u64, want: &[&str]) {
        let ty = Type::Ustack(StackForm { mode, frames });
        let lines = want.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>();
        let want = match want {
            [] => Value::str(""),
            _ => Value::Stack { frames: lines, is_indented: mode == StackMode::Bpftrace },
        };
        assert_eq!(Value::decode(&ty, &value.to_le_bytes(), names()), Ok(want));
    }

    #[test]
    fn each_mode_has_its_lines() {
        let value = 7 << 32 | 5;
        check_stack(StackMode::Bpftrace, 127, value, &["main+16", "0x2020", "0x9999"]);
        check_stack(StackMode::Bpftrace, 1, value, &["main+16"]);
        let perf = ["\t1010 main+16 (/bin/a)", "\t2020 0x2020 (/bin/a)", "\t9999 0x9999 ([unknown])"];
        check_stack(StackMode::Perf, 127, value, &perf);
        check_stack(StackMode::Raw, 2, value, &["1010", "2020"]);
    }

    #[test]
    fn no_stack_prints_as_nothing() {
        for value in [0, 7 << 32 | u64::from(u32::MAX), 7 << 32 | 6, 5] {
            check_stack(StackMode::Bpftrace, 127, value, &[]);
        }
    }
}
