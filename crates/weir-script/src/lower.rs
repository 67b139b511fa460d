//! [`Checked`] script → [`Module`].
//!
//! One IR function for each probe that runs in weir itself, one for all probed functions of a clause together.
//! `if`, `?:`, `&&` and `||` become blocks that only jump forward, loops jump back to their head; a scratch variable is an SSA
//! value, and a block parameter where paths with different values meet. Types were checked: what does not fit here is a bug of ours.
//! Folds no constant and removes no dead value: that is the passes' work.

mod argument;
mod block;
mod buffer;
mod call;
mod double;
mod expr;
mod inline;
mod looping;
mod memory;
mod network;
mod stmt;
mod text;

use std::collections::HashMap;

use weir_event::ctype::CTypes;
use weir_event::{Action, MapSchema, MapValue, Schema, Type, Word};
use weir_ir::{ActionId, Function, MapId, Module};
use weir_source::SourceFile;

use crate::ast::{Clause, Name};
use crate::check::{Checked, Target};
use crate::expand::{Expanded, Origins};
use crate::lower::block::{Blocks, Call, Loop, Slot};

/// The IR of a script. Both must be of this file, and `checked` of this script.
pub(crate) fn lower(file: &SourceFile, expanded: &Expanded, checked: &Checked) -> Module {
    let mut actions = Actions::default();
    let mut functions = Vec::new();
    for (index, (clause, targets)) in expanded.script.clauses.iter().zip(&checked.targets).enumerate() {
        for target in targets {
            let mut lowering = Lowering {
                file,
                origins: &expanded.origins,
                checked,
                target,
                actions: &mut actions,
                blocks: Blocks::default(),
                variables: Vec::new(),
                loops: Vec::new(),
                calls: Vec::new(),
            };
            let wide = checked.wide.get(&index).map_or(&[][..], Vec::as_slice);
            functions.push(lowering.clause(clause, wide));
        }
    }
    let types =
        if shows_objects(&actions.list, &checked.maps) { checked.types.clone() } else { CTypes::default() };
    let schema = Schema {
        actions: actions.list,
        maps: checked.maps.clone(),
        sites: checked.sites.clone(),
        types,
        events: Vec::new(),
        hides_maps: !checked.prints_maps,
        shows_mangled: !checked.demangles,
    };
    let Checked { max_map_keys, missing_probes, max_loop_iterations, .. } = *checked;
    Module { functions, schema, max_map_keys, missing_probes, max_loop_iterations }
}

/// Whether what is printed has C records or arrays in it.
fn shows_objects(actions: &[Action], maps: &[MapSchema]) -> bool {
    let fields = actions.iter().flat_map(weir_ir::check::action_fields).map(|field| &field.ty);
    let keys = maps.iter().filter_map(|map| map.key.as_ref());
    let values = maps.iter().filter_map(|map| match &map.value {
        MapValue::Plain(ty) => Some(ty),
        _ => None,
    });
    let mut leaves = fields.chain(keys).chain(values).flat_map(weir_ir::leaves);
    leaves.any(|leaf| matches!(leaf, Type::Object { .. } | Type::Word(Word::Enum(_))))
}

/// The actions of the module. A call that is lowered for two functions is one action.
#[derive(Default)]
struct Actions {
    list: Vec<Action>,
    by_call: HashMap<u32, ActionId>,
}

impl Actions {
    /// The action of the call that starts at `start`.
    fn intern(&mut self, start: u32, action: Action) -> ActionId {
        let list = &mut self.list;
        *self.by_call.entry(start).or_insert_with(|| {
            list.push(action);
            ActionId(list.len() as u32 - 1)
        })
    }
}

/// The lowering of one function.
struct Lowering<'a> {
    file: &'a SourceFile,
    origins: &'a Origins,
    checked: &'a Checked,
    target: &'a Target,
    actions: &'a mut Actions,
    blocks: Blocks,
    /// Scratch variables in scope, innermost last.
    variables: Vec<Slot>,
    /// Loops around what is being lowered, innermost last.
    loops: Vec<Loop>,
    /// Functions around it, innermost last.
    calls: Vec<Call>,
}

impl Lowering<'_> {
    /// `wide`: variables that it begins with.
    fn clause(&mut self, clause: &Clause, wide: &[Name]) -> Function {
        self.blocks.open_entry();
        wide.iter().for_each(|variable| self.let_stmt(variable, None));
        match &clause.predicate {
            None => self.block(&clause.body),
            Some(predicate) => {
                let (yes, no) = self.condition(predicate);
                self.merge(yes, 0, &[]);
                self.block(&clause.body);
                let mut ends = no;
                ends.extend(self.jump(Vec::new()));
                self.merge(ends, 0, &[]);
            }
        }
        self.blocks.finish();
        let (types, blocks) = std::mem::take(&mut self.blocks).into_parts();
        Function {
            name: self.target.name.clone(),
            trigger: self.target.trigger.clone(),
            types,
            blocks,
            span: self.origins.place(clause.span),
        }
    }

    fn map_id(&self, name: &str) -> MapId {
        let index = self.checked.maps.iter().position(|map| map.name == name);
        // SANITY: the check has listed every map of the script.
        MapId(index.expect("a checked map is listed") as u32)
    }
}
