//! What a script prints: its records as they come, its maps, and what of them was lost.
//!
//! In: records, and the maps that they speak of ([`Store`]), wherever the programs run. Out: a report; the exit code that the script asks for.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use weir_codegen::{GLOBAL_NO_KEY, GLOBAL_NO_ROOM, GLOBAL_NO_SCRATCH, GLOBAL_NO_STACK, GLOBAL_NOT_RAISED};
use weir_event::{MapSchema, PrintTo, Schema};
use weir_ir::sides::Side;
use weir_report::{Decoded, Entry, ProcessLine, Records, Report, Summary};

use crate::both::KernelMaps;
use crate::failure::Failure;
use crate::local_time;
use crate::notice::{Notice, Notices};
use crate::plan::Plan;
use crate::scalars::Scalars;
use crate::shared::output_failed;
use crate::store::{Store, word};
use crate::symbols::ProcessSymbols;

/// How often lost records are reported.
const LOST_INTERVAL: Duration = Duration::from_secs(1);

/// How far a script is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    /// It has called `exit()`.
    Exited,
    /// END has begun.
    Ending,
}

pub(crate) struct Output {
    plan: Rc<Plan>,
    notices: Notices,
    records: Records,
    report: Report<Box<dyn Write>>,
    pub(crate) symbols: ProcessSymbols,
    scalars: Scalars,
    /// What `exit()` was called with.
    exit: Option<i64>,
    /// What the run ends with, if the script says nothing else.
    asked: Option<i64>,
    phase: Phase,
    /// Of `errorf` and `assert`.
    errors: u64,
    lost: u64,
    told_lost: Option<Instant>,
    /// How often runs of a clause ended in the loop of that line.
    loops: BTreeMap<(String, u32), u64>,
    /// Maps that are in the kernel, where the others are not.
    kernel_maps: Option<KernelMaps>,
    /// Records that its ring had no room for, and when that was last seen empty.
    lost_in_kernel: u64,
    drained_in_kernel_ns: u64,
}

impl Output {
    pub(crate) fn new(plan: Rc<Plan>, report: Report<Box<dyn Write>>, notices: Notices) -> Output {
        Output {
            notices,
            symbols: ProcessSymbols::new(&plan.compiled),
            records: Records::new(&plan.compiled.schema, report.format()),
            plan,
            report,
            scalars: Scalars::default(),
            exit: None,
            asked: None,
            phase: Phase::Running,
            errors: 0,
            lost: 0,
            told_lost: None,
            loops: BTreeMap::new(),
            kernel_maps: None,
            lost_in_kernel: 0,
            drained_in_kernel_ns: 0,
        }
    }

    /// The same, with maps that are in the kernel.
    pub(crate) fn with_kernel_maps(self, kernel_maps: KernelMaps) -> Output {
        Output { kernel_maps: Some(kernel_maps), ..self }
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.plan.compiled.schema
    }

    /// The code that the run is to end with, once something has asked for its end.
    pub(crate) fn exit(&self) -> Option<i64> {
        self.exit.or(self.asked)
    }

    /// The same, and all goes on as if it had not been asked for.
    pub(crate) fn take_exit(&mut self) -> Option<i64> {
        self.phase = Phase::Running;
        self.exit.take()
    }

    /// How often the script has reported an error.
    pub(crate) fn errors(&self) -> u64 {
        self.errors
    }

    /// Of runs that a loop has ended so far, how many there are, and a line for each loop.
    pub(crate) fn cut(&self) -> (u64, String) {
        let lines = self.cut_loops().map(|(_, text)| text + "\n").collect();
        (self.loops.values().sum(), lines)
    }

    /// The run is to end with this code, unless the script has asked for another.
    pub(crate) fn ask_to_exit(&mut self, code: i64) {
        self.asked.get_or_insert(code);
    }

    /// The run ends with this code.
    pub(crate) fn exits_with(&mut self, code: i64) {
        self.exit = Some(code);
    }

    /// From now on END runs.
    pub(crate) fn ends(&mut self) {
        self.phase = Phase::Ending;
    }

    /// Says what became of a process.
    pub(crate) fn process(&mut self, line: &ProcessLine) -> Result<(), Failure> {
        self.report.process(line).map_err(output_failed)
    }

    /// The last line of the report.
    pub(crate) fn summary(&mut self, summary: &Summary) -> Result<(), Failure> {
        self.report.summary(summary).map_err(output_failed)
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.report.flush().map_err(output_failed)
    }

    /// Does what a record asks for.
    pub(crate) fn record(&mut self, maps: &dyn Store, bytes: &[u8]) -> Result<(), Failure> {
        self.record_of(Side::Processes, maps, bytes)
    }

    /// The same of a record that comes from there.
    pub(crate) fn record_of(&mut self, side: Side, maps: &dyn Store, bytes: &[u8]) -> Result<(), Failure> {
        let Some(kernel_maps) = self.kernel_maps.clone() else { return self.done(maps, &|_| (), bytes) };
        let plan = self.plan.clone();
        let both = kernel_maps.beside(maps, &plan.compiled.schema.maps);
        both.is_of(side);
        self.done(&both, &|map| both.is_of_map(map), bytes)
    }

    /// `is_about`: what follows is about what this map holds.
    fn done(&mut self, maps: &dyn Store, is_about: &dyn Fn(u32), bytes: &[u8]) -> Result<(), Failure> {
        // What ran between exit() and the end of the run is not printed, as in bpftrace; END's output is.
        if self.phase == Phase::Exited {
            return Ok(());
        }
        let schema = &self.plan.compiled.schema;
        let symbols = self.symbols.over(maps);
        // Lines may come by millions a second: no value is made of them.
        if let Some(text) = self.records.printed(schema, bytes, &symbols) {
            return self.report.printf(text).map_err(output_failed);
        }
        let Ok(decoded) = self.records.read(schema, bytes, &symbols) else {
            self.report.count_malformed();
            return Ok(());
        };
        let done = match decoded {
            Decoded::Printf { to: PrintTo::Output, text } => self.report.printf(text),
            Decoded::Printf { to: PrintTo::File(most), text: path } => match read_file(path, *most) {
                Ok(content) => self.report.cat(&content),
                Err(error) => {
                    let path = String::from_utf8_lossy(path);
                    let text = format!("cat: {}: {error}", weir_source::printable(&path));
                    self.notices.send(Notice::Script { text, is_warning: false });
                    Ok(())
                }
            },
            Decoded::Printf { to: PrintTo::Command, text: command } => {
                self.report.flush().map_err(output_failed)?;
                match system(command) {
                    Ok(output) => self.report.system(&output),
                    Err(error) => {
                        let text = format!("system: /bin/sh: {error}");
                        self.notices.send(Notice::Script { text, is_warning: false });
                        Ok(())
                    }
                }
            }
            Decoded::Printf { to: to @ (PrintTo::Error(place) | PrintTo::Warning(place)), text } => {
                self.errors += u64::from(matches!(to, PrintTo::Error(_)));
                let (kind, word) = match to {
                    PrintTo::Error(_) => ("errorf", "ERROR"),
                    _ => ("warnf", "WARNING"),
                };
                self.report.error(kind, place, text).map(|is_done| {
                    if !is_done {
                        let text = format!("{place}: {word}: {}", String::from_utf8_lossy(text));
                        let is_warning = matches!(to, PrintTo::Warning(_));
                        self.notices.send(Notice::Script { text, is_warning });
                    }
                })
            }
            Decoded::PrintValue { value } => self.report.value(&value),
            Decoded::PrintMap { map, top, div } => {
                is_about(schema.maps[map].map_index);
                let entries = self.scalars.entries(maps, &schema.maps[map]);
                self.report.map(schema, map, &entries, top, div, &symbols)
            }
            Decoded::PrintMapKey { map, key } => {
                is_about(schema.maps[map].map_index);
                let value = maps.lookup(schema.maps[map].map_index, &key);
                self.report.map_key(schema, map, &key, value, &symbols)
            }
            Decoded::ClearMap { map } => {
                self.scalars.clear(maps, &schema.maps[map]);
                Ok(())
            }
            Decoded::ZeroMap { map } => {
                self.scalars.zero(maps, &schema.maps[map]);
                Ok(())
            }
            Decoded::Join { text } => self.report.join(&text),
            Decoded::Time { format } => self.report.time(&local_time::now(format)),
            Decoded::LoopEnded { clause, line } => {
                *self.loops.entry((clause.to_owned(), line)).or_default() += 1;
                Ok(())
            }
            Decoded::Exit { code } => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Exited;
                }
                self.exit.get_or_insert(code);
                Ok(())
            }
        };
        done.map_err(output_failed)
    }

    /// Prints every map. `foreign` has the entries of those that are not of the script, by their place in the schema.
    pub(crate) fn print_all(
        &mut self,
        maps: &dyn Store,
        foreign: &dyn Fn(usize) -> Option<Vec<Entry>>,
    ) -> Result<(), Failure> {
        let (scalars, schema) = (&self.scalars, &self.plan.compiled.schema);
        let both = self.kernel_maps.as_ref().map(|kernel| kernel.beside(maps, &schema.maps));
        let maps = both.as_ref().map_or(maps, |both| both as &dyn Store);
        let entries = &mut |index: usize, map: &MapSchema| {
            if let Some(both) = &both {
                both.is_of_map(map.map_index);
            }
            foreign(index).unwrap_or_else(|| scalars.entries(maps, map))
        };
        let done = self.report.print_all(schema, entries, &self.symbols.over(maps));
        done.map_err(output_failed)
    }

    /// What a map of the script holds, by its name.
    pub(crate) fn entries(&self, maps: &dyn Store, name: &str) -> Option<Vec<Entry>> {
        let map = self.schema().maps.iter().find(|map| map.name == name)?;
        Some(self.with_maps(maps, |maps| self.scalars.entries(maps, map)))
    }

    /// Does something with the maps of both sides, where there are two.
    pub(crate) fn with_maps<T>(&self, maps: &dyn Store, work: impl FnOnce(&dyn Store) -> T) -> T {
        match &self.kernel_maps {
            Some(kernel) => work(&kernel.beside(maps, &self.schema().maps)),
            None => work(maps),
        }
    }

    /// Says how many records the ring had no room for: at most once a second, unless it is the last time.
    pub(crate) fn tell_lost(&mut self, dropped: u64, is_last: bool) -> Result<(), Failure> {
        let dropped = dropped + self.lost_in_kernel;
        let is_due = is_last || self.told_lost.is_none_or(|at| at.elapsed() >= LOST_INTERVAL);
        if dropped > self.lost && is_due {
            self.told_lost = Some(Instant::now());
            let new = dropped - self.lost;
            self.lost = dropped;
            self.report.lost_events(new).map_err(output_failed)?;
        }
        Ok(())
    }

    /// The ring was seen empty at this time, or later: all records are younger.
    pub(crate) fn drained(&self, began_ns: u64) {
        let both = self.kernel_maps.as_ref().map_or(began_ns, |_| began_ns.min(self.drained_in_kernel_ns));
        self.symbols.note_drained(both);
    }

    /// The same of the kernel's ring, where there is another. What it had no room for is said with what that had not.
    pub(crate) fn drained_in_kernel(&mut self, maps: &dyn Store, began_ns: u64) {
        self.drained_in_kernel_ns = began_ns;
        self.lost_in_kernel = self.no_room(maps);
    }

    /// Records that programs had no room for, where they count them themselves.
    pub(crate) fn no_room(&self, maps: &dyn Store) -> u64 {
        word(&self.globals(maps), GLOBAL_NO_ROOM)
    }

    /// What is left out of the report, with its count: 0 for most.
    pub(crate) fn losses(&self, maps: &dyn Store) -> Vec<(u64, String)> {
        let mut losses = vec![(
            self.report.malformed(),
            "records or map entries did not fit their schema, and are left out".to_owned(),
        )];
        losses.extend(self.losses_of(maps).into_iter().map(|(count, what)| (count, what.to_owned())));
        losses.extend(self.cut_loops());
        losses.extend(self.symbols.losses());
        losses
    }

    /// What programs count themselves, of those with these maps.
    pub(crate) fn losses_of(&self, maps: &dyn Store) -> [(u64, &'static str); 4] {
        let globals = self.globals(maps);
        [
            (GLOBAL_NO_SCRATCH, "runs found no scratch memory for strings, and are lost"),
            (GLOBAL_NOT_RAISED, "values of min or max gave up under contention"),
            (GLOBAL_NO_STACK, "stacks found their places taken by others, and are lost"),
            (GLOBAL_NO_KEY, "values did not fit into maps (max_map_keys), or met others there, and are lost"),
        ]
        .map(|(at, what)| (word(&globals, at), what))
    }

    fn cut_loops(&self) -> impl Iterator<Item = (u64, String)> {
        self.loops.iter().map(|((clause, line), &runs)| {
            let text = format!(
                "runs of `{}` ended in the loop of line {line}, which had as many rounds as a run may have \
                 (`config = {{ max_loop_iterations = N }}`, N up to {})",
                weir_source::printable(clause),
                weir_ir::limits::LOOP_ITERATIONS_MAX
            );
            (runs, text)
        })
    }

    /// The internal map of globals.
    fn globals(&self, maps: &dyn Store) -> Vec<u8> {
        maps.lookup(self.plan.compiled.globals, &0u32.to_le_bytes()).unwrap_or_default()
    }
}

/// What a command writes until the shell has ended; how it has ended is nobody's concern, as in bpftrace. It is not read through a pipe,
/// whose end would be that of the last process that the command leaves behind.
fn system(command: &[u8]) -> io::Result<Vec<u8>> {
    let mut output = File::from(memfd_create("weir-system", MFdFlags::MFD_CLOEXEC)?);
    let stdout = output.try_clone()?;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(OsStr::from_bytes(command)).stdin(Stdio::null()).stdout(stdout).status()?;
    output.rewind()?;
    let mut written = Vec::new();
    output.read_to_end(&mut written)?;
    Ok(written)
}

/// The first bytes of a file.
fn read_file(path: &[u8], most: u32) -> io::Result<Vec<u8>> {
    let path = Path::new(OsStr::from_bytes(path));
    // What would wait for a writer is opened without, and is empty.
    let file = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let mut content = Vec::new();
    file.take(most.into()).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests;
