//! Names for addresses of processes, also of those that have ended, and of libraries that were unloaded.
//!
//! In: looks at living processes ([`History::look`]) at times of the caller's choice, and their ends. Out: for an address,
//! the function that stood there, how far into it the address is, and the file ([`History::resolve`]); or why there is
//! no name ([`Why`]). Rather no name than a wrong one: where several files may have stood at the address, an answer is
//! given only if all agree, and a file that was replaced is known by its build id (`history/files.rs`).
//!
//! What generated code says of itself (`/tmp/perf-PID.map`, `history/perf.rs`) is asked where no file has a name. Names are
//! read from files when the first address in them is asked for; files are held open from the first look on, so that
//! this also works when they have been replaced. An edge: reads `/proc` and files. Memory is bounded by `limits.rs`.

mod files;
mod perf;

use std::fs;
use std::io;
use std::path::Path;

use crate::VirtAddr;
use crate::demangle::demangle;
use crate::generations::{Generations, Image, Moment, Place};
use crate::history::files::Files;
use crate::history::perf::PerfMaps;
use crate::maps::Mapping;

/// What an address is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolved {
    Function {
        /// Of C++ as people write it, with its arguments' types.
        name: String,
        /// Bytes from its start.
        offset: u64,
        /// The file that it is in, as the process saw it.
        module: String,
    },
    Unnamed {
        /// The file, where one stood there.
        module: Option<String>,
        why: Why,
    },
}

/// Why an address has no name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// No file was seen there, and no perf map names it.
    NothingThere,
    /// The file names no function there: it was stripped.
    NoFunction,
    /// The file was replaced or written over since it was mapped.
    Replaced,
    /// The file cannot be read, or is no ELF file.
    Unreadable,
    /// Several files may have stood there, and their names differ.
    Ambiguous,
}

/// What was left out because of a limit or a broken file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Mappings that were forgotten.
    pub mappings: u64,
    /// Files that could not be held open; they have names as long as they are not replaced.
    pub files_not_held: u64,
    /// Lines of perf maps that are none, or beyond a limit.
    pub perf_lines: u64,
    /// Perf maps that were not taken: of another owner, or older than their process.
    pub perf_maps_refused: u64,
}

#[derive(Debug, Default)]
pub struct History {
    generations: Generations,
    files: Files,
    perf_maps: PerfMaps,
    /// Names are as files have them.
    shows_mangled: bool,
}

impl History {
    /// With names as files have them, of C++ and Rust too.
    pub fn mangled() -> History {
        History { shows_mangled: true, ..History::default() }
    }

    /// Looks at process `pid`, whose folder in `/proc` is `folder` (of any thread of it that lives), and which has these
    /// mappings at the time `at`. Errors are those of reading the folder: the process has ended.
    pub fn look(&mut self, pid: u32, folder: &Path, mappings: &[Mapping], at: u64) -> io::Result<()> {
        // What is ending has none, and that does not mean that it has unmapped them.
        if mappings.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let image = image(&fs::read_to_string(folder.join("stat"))?)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a stat file that is none"))?;
        for (number, mapping) in self.generations.look(pid, image, mappings, at) {
            self.files.see(number, mapping, folder);
        }
        self.perf_maps.look(pid, image, folder);
        Ok(())
    }

    /// Process `pid` has ended, at the time `at` at the latest.
    pub fn ended(&mut self, pid: u32, at: u64) {
        self.generations.ended(pid, at);
        self.perf_maps.ended(pid);
    }

    /// The name of `address` in process `pid`, as it was seen at `moment`.
    pub fn resolve(&mut self, pid: u32, address: VirtAddr, moment: Moment) -> Resolved {
        let places = self.generations.places(pid, address, moment);
        let mut answers: Vec<Resolved> = Vec::new();
        for place in places {
            let answer = self.named(place);
            if !answers.contains(&answer) {
                answers.push(answer);
            }
        }
        let answer = match answers.len() {
            0 => Resolved::Unnamed { module: None, why: Why::NothingThere },
            1 => answers.remove(0),
            _ => Resolved::Unnamed { module: None, why: Why::Ambiguous },
        };
        match answer {
            Resolved::Unnamed { why: Why::NothingThere | Why::NoFunction | Why::Unreadable, .. } => {
                let images = self.generations.images(pid, moment);
                self.perf_maps.find(pid, &images, address).unwrap_or(answer)
            }
            answer => answer,
        }
    }

    pub fn losses(&self) -> Losses {
        Losses {
            mappings: self.generations.forgotten(),
            files_not_held: self.files.not_held(),
            perf_lines: self.perf_maps.lines_left_out(),
            perf_maps_refused: self.perf_maps.refused(),
        }
    }

    fn named(&mut self, place: Place) -> Resolved {
        let file = self.generations.file(place.file);
        let module = file.path.clone();
        match self.files.names(place.file, file) {
            Ok(names) => match names.at(place.offset) {
                Some((name, offset)) => {
                    let shown = if self.shows_mangled { None } else { demangle(name) };
                    let name = shown.unwrap_or_else(|| name.to_owned());
                    Resolved::Function { name, offset, module }
                }
                None => Resolved::Unnamed { module: Some(module), why: Why::NoFunction },
            },
            Err(why) => Resolved::Unnamed { module: Some(module), why },
        }
    }
}

/// Of the text of `/proc/PID/stat`. The name in brackets may hold anything.
fn image(stat: &str) -> Option<Image> {
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    // The state, field 3 of proc_pid_stat(5), is the first one here.
    let number = |field: usize| fields.get(field - 3)?.parse().ok();
    Some(Image { started_ticks: number(22)?, stack: number(28)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_read_from_stat_whatever_the_name() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21 22 23 24 140726 26";
        for name in ["(sh)", "(a b)", "(a) 1 (b)", "())"] {
            let found = image(&format!("77 {name} {tail}"));
            assert_eq!(found, Some(Image { started_ticks: 4242, stack: 140_726 }), "{name}");
        }
        for broken in ["", "77 (sh", "77 (sh)", "77 (sh) S 1 2", ")"] {
            assert_eq!(image(broken), None, "{broken}");
        }
    }
}
