//! The command line of `weir fmt`: scripts in weir's style.

use std::path::{Path, PathBuf};

use crate::args::Script;

const EXAMPLES: &str = "\
Examples:
  weir fmt tool.bt other.bt   rewrite these files, if they are to change
  weir fmt < a.bt > b.bt      from standard input to standard output
  weir fmt --check *.bt       name the files that would change; exit code 1 if there are any";

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fmt {
    /// Scripts; without one, or for -, standard input is formatted to standard output
    #[arg(value_name = "FILE.bt")]
    pub(crate) files: Vec<PathBuf>,

    /// The script itself, formatted to standard output
    #[arg(short = 'e', value_name = "PROGRAM", conflicts_with = "files")]
    pub(crate) program: Option<String>,

    /// Change nothing: print the names of the files that would change, and end with exit code 1 if there are any
    #[arg(long)]
    pub(crate) check: bool,

    /// Print the formatted scripts instead of rewriting their files
    #[arg(long, conflicts_with = "check")]
    pub(crate) print: bool,
}

impl Fmt {
    /// What is to be formatted.
    pub(crate) fn scripts(&self) -> Vec<Script<'_>> {
        match &self.program {
            Some(text) => vec![Script::Text(text)],
            None if self.files.is_empty() => vec![Script::StandardInput],
            None => self.files.iter().map(|path| script(path)).collect(),
        }
    }
}

fn script(path: &Path) -> Script<'_> {
    if path == Path::new("-") { Script::StandardInput } else { Script::File(path) }
}
