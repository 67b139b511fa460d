//! The language from outside: what is accepted and how it reads, what is refused and where, what it becomes.

mod accept;
mod docs;
mod doubles;
mod format;
mod kernel;
mod lower;
mod reject;
mod run;
mod soup;
mod statics;
mod world;

use weir_event::ctype::CTypes;
use weir_ir::Module;
use weir_script::Options;
use weir_source::{Diagnostic, SourceFile};

use crate::language::world::TableWorld;

pub(crate) fn source(text: &str) -> SourceFile {
    SourceFile { name: "test.bt".into(), text: text.into() }
}

/// Compiles with the parameters `42` and `abc`, and checks that what comes out is sound IR that parses back.
pub(crate) fn compile(text: &str) -> Result<(Module, Vec<Diagnostic>), Vec<Diagnostic>> {
    let options = Options { params: vec!["42".into(), "abc".into()], ..Options::default() };
    let result = weir_script::compile(&source(text), &options, &TableWorld);
    if let Ok((module, _)) = &result {
        if let Err(faults) = weir_ir::check::check(module) {
            panic!("unsound IR from {text:?}: {faults:#?}\n{}", weir_ir::text::print(module));
        }
        let printed = weir_ir::text::print(module);
        let mut in_text = module.clone();
        in_text.schema.types = CTypes::default();
        assert_eq!(weir_ir::text::parse(&printed), Ok(in_text), "of {text:?}: {printed}");
    }
    result
}
