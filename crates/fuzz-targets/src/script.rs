//! Any text as a script, and as C text before one: a module that is sound, or faults at places of the text.

use weir_ir::world::{FoundFunction, World, WorldError};
use weir_script::Options;
use weir_source::{SourceFile, render};

/// Every binary has every function; nothing else is there.
struct Everywhere;

impl World for Everywhere {
    fn functions(&self, binary: &str, pattern: &str) -> Result<Vec<FoundFunction>, WorldError> {
        Ok(vec![FoundFunction::plain(&format!("/lib/{binary}"), pattern)])
    }
}

/// Reads bytes as a script: parsed, checked, lowered and optimised.
pub fn read(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    compile(text.to_owned());
}

/// Reads bytes as C text, whose types and constants a clause asks for.
pub fn read_c(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    compile(format!(
        "{text}\nuprobe:x:f {{ $s = (struct s *)arg0; @ = sizeof(struct s); @a = $s->a; @b[N] = count(); }}\n"
    ));
}

fn compile(text: String) {
    let file = SourceFile { name: "<script>".to_owned(), text };
    match weir_script::compile(&file, &Options::default(), &Everywhere) {
        Ok((mut module, _)) => {
            weir_ir::pass::optimise(&mut module);
            if let Err(faults) = weir_ir::check::check(&module) {
                panic!("{}\n{}", faults.join("\n"), file.text);
            }
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            // Each shows its place, whatever is there.
            assert!(!render(&file, &faults, false).is_empty());
        }
    }
}
