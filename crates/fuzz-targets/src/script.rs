//! Any text as a script, and as C text before one: a module that is sound, or faults at places of the text.
//!
//! [`read`] and [`read_c`] parse and check, which is what hostile text reaches first; [`read_whole`] goes on to the optimised module.

use weir_ir::world::{FoundFunction, World, WorldError};
use weir_script::Options;
use weir_source::{Diagnostic, SourceFile, render};

/// LIMIT: rendering takes several times as long as checking, and does the same for each diagnostic: one input of so many is rendered.
const RENDERED_OF: usize = 16;

/// Every binary has every function; nothing else is there.
struct Everywhere;

impl World for Everywhere {
    fn functions(&self, binary: &str, pattern: &str) -> Result<Vec<FoundFunction>, WorldError> {
        Ok(vec![FoundFunction::plain(&format!("/lib/{binary}"), pattern)])
    }
}

/// Reads bytes as a script: parsed and checked.
pub fn read(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    check(text.to_owned());
}

/// Reads bytes as C text, whose types and constants a clause asks for.
pub fn read_c(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    check(format!(
        "{text}\nuprobe:x:f {{ $s = (struct s *)arg0; @ = sizeof(struct s); @a = $s->a; @b[N] = count(); }}\n"
    ));
}

/// Reads bytes as a script: parsed, checked, lowered and optimised.
pub fn read_whole(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = SourceFile { name: "<script>".to_owned(), text: text.to_owned() };
    match weir_script::compile(&file, &Options::default(), &Everywhere) {
        Ok((mut module, _)) => {
            weir_ir::pass::optimise(&mut module);
            if let Err(faults) = weir_ir::check::check(&module) {
                panic!("{}\n{}", faults.join("\n"), file.text);
            }
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            show(&file, &faults);
        }
    }
}

fn check(text: String) {
    let file = SourceFile { name: "<script>".to_owned(), text };
    let said = weir_script::check(&file, &Options::default(), &Everywhere);
    for diagnostic in &said {
        let spans = diagnostic.labels.iter().map(|label| label.span).chain([diagnostic.span]);
        for span in spans {
            let range = span.start as usize..span.end as usize;
            assert!(file.text.get(range).is_some(), "{diagnostic:?} is at no place of {:?}", file.text);
        }
    }
    let sum = file.text.bytes().map(usize::from).sum::<usize>();
    if sum.is_multiple_of(RENDERED_OF) {
        show(&file, &said);
    }
}

/// Each shows its place, whatever is there.
fn show(file: &SourceFile, said: &[Diagnostic]) {
    assert_eq!(render(file, said, false).is_empty(), said.is_empty());
}
