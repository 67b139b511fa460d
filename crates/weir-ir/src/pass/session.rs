//! A clause at the entry of a function and one at its return, between which a map keeps one integer of the thread,
//! become one session that keeps it with the call: no map operation is left.
//!
//! `uprobe:f { @s[tid] = nsecs; } uretprobe:f /@s[tid]/ { @ = hist(nsecs - @s[tid]); delete(@s[tid]); }` is what people
//! write. It is fused where all of this is seen:
//!
//! - the map has integers by one integer, and nothing of the script names it but one clause at the entry and one at the
//!   return of the same function, always with the key `tid`; `clear(@s)` in `END` may, as nothing is left to clear
//! - the entry only sets it; the return only reads and deletes it, and on every path has deleted it or knows that it is
//!   not there: a value that is never 0 read as 0
//! - the two clauses share no other map but for observations; the entry does not ask for `probe` or `func`
//! - the entry's clause can move to where the return's stands: of the probes between, none shares a map with it or
//!   writes records where it does, or calls the user's program
//!
//! `kprobe:f` and `kretprobe:f` are fused in the same way, where the kernel runs one program at both ends of a call.
//!
//! What differs, on purpose, is a call within a call of the same thread: docs/decisions/0025-sessions.md.

use std::collections::BTreeMap;

use weir_event::kernel::KernelEvent;
use weir_event::{Action, MapValue, Type};

use crate::{
    Block, BlockId, Builtin, CmpOp, Function, Inst, KERNEL, KernelSite, MapId, Module, Op, SiteSpec,
    Terminator, Trigger, Value, limits,
};

/// Fuses what can be at functions whose calls can keep something; true if anything was.
pub fn run(
    module: &mut Module,
    keeps: &dyn Fn(&SiteSpec) -> bool,
    keeps_in_kernel: &dyn Fn(&str) -> bool,
) -> bool {
    let mut changed = false;
    for map in 0..module.schema.maps.len() as u32 {
        if let Some(pair) = Pair::of(module, MapId(map))
            && module.functions[pair.exit].trigger.sites().iter().all(keeps)
            && kernel_function(&module.functions[pair.exit].trigger)
                .is_none_or(|(name, _)| keeps_in_kernel(name))
        {
            pair.fuse(module);
            changed = true;
        }
    }
    changed
}

/// Two clauses that one map connects.
struct Pair {
    map: MapId,
    /// Functions of the module.
    entry: usize,
    exit: usize,
    /// Every way through the entry sets the map.
    always_sets: bool,
}

impl Pair {
    fn of(module: &Module, map: MapId) -> Option<Pair> {
        let schema = &module.schema.maps[map.0 as usize];
        let is_integer = matches!(schema.value, MapValue::Plain(Type::Int { .. }));
        if !is_integer || !matches!(schema.key, Some(Type::Int { .. })) || !is_printed_nowhere(module, map) {
            return None;
        }
        let uses = |function: &Function| function.ops().any(|op| op.map() == Some(map));
        let users: Vec<usize> = (0..module.functions.len()).filter(|&f| uses(&module.functions[f])).collect();
        let &[one, other] = &users[..] else { return None };
        let (entry, exit) = match (&module.functions[one].trigger, &module.functions[other].trigger) {
            (Trigger::Uprobe { .. }, Trigger::Uretprobe { .. }) => (one, other),
            (Trigger::Uretprobe { .. }, Trigger::Uprobe { .. }) => (other, one),
            (one_end, other_end) => match (kernel_function(one_end)?, kernel_function(other_end)?) {
                ((_, false), (_, true)) => (one, other),
                ((_, true), (_, false)) => (other, one),
                _ => return None,
            },
        };
        let (at_entry, at_exit) = (&module.functions[entry], &module.functions[exit]);
        // What follows looks at each block once.
        if has_loops(at_entry) || has_loops(at_exit) {
            return None;
        }
        let is_one_function = function_of(at_entry)? == function_of(at_exit)?;
        let names_itself = |op: &Op| matches!(op, Op::Builtin(Builtin::Probe | Builtin::Func));
        if !is_one_function || at_entry.ops().any(names_itself) || shares_state(at_entry, at_exit, Some(map))
        {
            return None;
        }
        let never_zero = sets_only(at_entry, map)?;
        if !leaves_nothing(at_exit, map, never_zero) || !may_move(module, entry, exit) {
            return None;
        }
        let added = ADDED_VALUES + 2 * at_exit.ops().filter(|op| matches!(op, Op::MapHas { .. })).count();
        let fits = at_entry.types.len() + at_exit.types.len() + added <= limits::VALUES_MAX
            && at_entry.blocks.len() + at_exit.blocks.len() < limits::BLOCKS_MAX;
        fits.then(|| Pair { map, entry, exit, always_sets: always_sets(at_entry, map) })
    }

    fn fuse(self, module: &mut Module) {
        let (entry, exit) = (&module.functions[self.entry], &module.functions[self.exit]);
        let mut fused = Fused::new(entry, exit);
        fused.entry_half(entry, &self);
        fused.exit_half(&asked_by_value(exit, self.map), self.map);
        let function = fused.function;
        module.functions[self.exit] = function;
        module.functions.remove(self.entry);
    }
}

/// Values besides those of the halves: `is_return`, and the zeros that are set.
const ADDED_VALUES: usize = 2;

fn has_loops(function: &Function) -> bool {
    function.ops().any(|op| *op == Op::MayLoop)
}

/// No record asks for the map, but for `clear` at the end.
fn is_printed_nowhere(module: &Module, map: MapId) -> bool {
    let asks = |function: &Function, op: &Op| {
        let Op::Emit { action, .. } = op else { return false };
        match &module.schema.actions[action.0 as usize] {
            Action::ClearMap { map: index } => *index == map.0 as usize && function.trigger != Trigger::End,
            Action::PrintMap { map: index, .. }
            | Action::PrintMapKey { map: index, .. }
            | Action::ZeroMap { map: index } => *index == map.0 as usize,
            Action::Printf { .. }
            | Action::PrintValue { .. }
            | Action::Time { .. }
            | Action::Join { .. }
            | Action::LoopEnded { .. }
            | Action::Exit { .. } => false,
        }
    };
    !module.functions.iter().any(|function| function.ops().any(|op| asks(function, op)))
}

/// The function that it is at; none if there are several, or if it is at a place inside one.
fn function_of(function: &Function) -> Option<(&str, &str)> {
    if let Some((name, _)) = kernel_function(&function.trigger) {
        return Some((KERNEL, name));
    }
    match function.trigger.sites() {
        [SiteSpec { binary, function, address: None, .. }] => Some((binary, function)),
        _ => None,
    }
}

/// The one function of the kernel that it is at, of those that a call can be kept of, and whether at its return.
fn kernel_function(trigger: &Trigger) -> Option<(&str, bool)> {
    let Trigger::Kernel { sites } = trigger else { return None };
    match &sites[..] {
        [KernelSite { event: KernelEvent::Function { name, offset: 0, is_return }, .. }]
            if !name.contains(':') =>
        {
            Some((name, *is_return))
        }
        _ => None,
    }
}

/// The two use a map, other than `except`, whose order of operations can be seen.
fn shares_state(a: &Function, b: &Function, except: Option<MapId>) -> bool {
    let observes = |op: &Op| matches!(op, Op::Aggregate { .. });
    a.ops()
        .filter(|op| op.map().is_some() && op.map() != except)
        .any(|one| b.ops().any(|other| one.map() == other.map() && !(observes(one) && observes(other))))
}

/// Something of it is seen in the order in which programs run: records, or what the user's own program does.
fn has_order(function: &Function) -> bool {
    function.ops().any(|op| matches!(op, Op::Emit { .. } | Op::Record { .. } | Op::CallProgram))
}

/// The entry's half can run when the return's would among the probes of the script.
fn may_move(module: &Module, entry: usize, exit: usize) -> bool {
    let moved = &module.functions[entry];
    let between = &module.functions[entry.min(exit) + 1..entry.max(exit)];
    between
        .iter()
        .filter(|function| function.trigger.is_probe())
        .all(|other| !(shares_state(moved, other, None) || has_order(moved) && has_order(other)))
}

/// By value: the operation that gives it.
fn definitions(function: &Function) -> BTreeMap<Value, &Op> {
    let insts = function.blocks.iter().flat_map(|block| &block.insts);
    insts.filter_map(|inst| Some((inst.result?, &inst.op))).collect()
}

fn is_tid(key: &[Value], definitions: &BTreeMap<Value, &Op>) -> bool {
    matches!(key, [key] if definitions.get(key) == Some(&&Op::Builtin(Builtin::Tid)))
}

/// All that is done to the map is setting its entry of this thread: whether to something that is never 0.
fn sets_only(function: &Function, map: MapId) -> Option<bool> {
    let definitions = definitions(function);
    let mut never_zero = true;
    for op in function.ops().filter(|op| op.map() == Some(map)) {
        match op {
            Op::MapSet { key, value, .. } if is_tid(key, &definitions) => {
                never_zero &= match definitions.get(value) {
                    Some(Op::Builtin(Builtin::Nsecs)) => true,
                    Some(Op::Int(value)) => *value != 0,
                    _ => false,
                };
            }
            _ => return None,
        }
    }
    Some(never_zero)
}

fn always_sets(function: &Function, map: MapId) -> bool {
    every_way(function, |block| block.insts.iter().any(|inst| inst.op.map() == Some(map)), |_, _| false)
}

/// All that is done to the map is reading and deleting its entry of this thread, which is not there at any end.
fn leaves_nothing(function: &Function, map: MapId, never_zero: bool) -> bool {
    let definitions = definitions(function);
    for op in function.ops().filter(|op| op.map() == Some(map)) {
        let is_known = match op {
            Op::MapGet { key, .. } | Op::MapDelete { key, .. } => is_tid(key, &definitions),
            // A value that is not there reads as 0, so they are told apart only where none is 0.
            Op::MapHas { key, .. } => never_zero && is_tid(key, &definitions),
            _ => false,
        };
        if !is_known {
            return false;
        }
    }
    let deletes = |block: &Block| {
        block.insts.iter().any(|inst| matches!(inst.op, Op::MapDelete { map: of, .. } if of == map))
    };
    let presence = |value: Value| {
        let op = definitions.get(&value)?;
        match op {
            Op::MapGet { map: of, .. } | Op::MapHas { map: of, .. } => (*of == map).then_some(()),
            _ => None,
        }
    };
    let is_zero = |value: &Value| definitions.get(value) == Some(&&Op::Int(0));
    // Whether the way that is taken if the condition is (not) 0 says that there is no entry.
    let absent = |condition: Value, if_not_zero: bool| {
        let said_by = match definitions.get(&condition) {
            Some(Op::Cmp(CmpOp::Ne, a, b)) if is_zero(b) && presence(*a).is_some() => Some(false),
            Some(Op::Cmp(CmpOp::Eq, a, b)) if is_zero(b) && presence(*a).is_some() => Some(true),
            _ => presence(condition).map(|()| false),
        };
        never_zero && said_by == Some(if_not_zero)
    };
    every_way(function, deletes, absent)
}

/// Every way through the function passes a block, or leaves one on a side of its branch, that settles it.
fn every_way(
    function: &Function,
    settles: impl Fn(&Block) -> bool,
    settled_by: impl Fn(Value, bool) -> bool,
) -> bool {
    // By block: whether it is reached, and settled on every way so far. Jumps go forward.
    let mut known: Vec<Option<bool>> = vec![None; function.blocks.len()];
    known[0] = Some(false);
    for (index, block) in function.blocks.iter().enumerate() {
        let Some(before) = known[index] else { continue };
        let settled = before || settles(block);
        let mut reach = |to: BlockId, settled: bool| {
            let known = &mut known[to.0 as usize];
            *known = Some(known.unwrap_or(true) && settled);
        };
        match &block.end {
            Terminator::Return | Terminator::Accept if !settled => return false,
            Terminator::Return | Terminator::Accept => {}
            Terminator::Jump { to, .. } => reach(*to, settled),
            Terminator::Branch { condition, then, otherwise, .. } => {
                reach(*then, settled || settled_by(*condition, true));
                reach(*otherwise, settled || settled_by(*condition, false));
            }
        }
    }
    true
}

/// The function with each question whether the map has the key turned into one whether its value is not 0.
fn asked_by_value(function: &Function, map: MapId) -> Function {
    let mut function = function.clone();
    let new = |types: &mut Vec<Type>| {
        types.push(Type::I64);
        Value(types.len() as u32 - 1)
    };
    for block in &mut function.blocks {
        for inst in std::mem::take(&mut block.insts) {
            match inst.op {
                Op::MapHas { map: of, key } if of == map => {
                    let (value, zero) = (new(&mut function.types), new(&mut function.types));
                    block.insts.push(Inst { result: Some(value), op: Op::MapGet { map, key } });
                    block.insts.push(Inst { result: Some(zero), op: Op::Int(0) });
                    block.insts.push(Inst { op: Op::Cmp(CmpOp::Ne, value, zero), ..inst });
                }
                _ => block.insts.push(inst),
            }
        }
    }
    function
}

/// At both ends of what this one is at the return of. With the names of the return's sites: only its half asks for them.
fn both_ends(exit: &Trigger) -> Trigger {
    match (kernel_function(exit), &exit.cookies()[..]) {
        (Some((name, _)), &[cookie]) => {
            let event = KernelEvent::Call { name: name.to_owned() };
            Trigger::Kernel { sites: vec![KernelSite { event, cookie }] }
        }
        _ => Trigger::Session { sites: exit.sites().to_vec() },
    }
}

/// The session under construction: block 0 branches to the halves.
struct Fused {
    function: Function,
    zero: Value,
}

impl Fused {
    fn new(entry: &Function, exit: &Function) -> Fused {
        let (is_return, zero) = (Value(0), Value(1));
        let first_of_exit = BlockId(1 + entry.blocks.len() as u32);
        let start = Block {
            params: Vec::new(),
            insts: vec![
                Inst { result: Some(is_return), op: Op::Builtin(Builtin::IsReturn) },
                Inst { result: Some(zero), op: Op::Int(0) },
            ],
            end: Terminator::Branch {
                condition: is_return,
                then: first_of_exit,
                then_args: Vec::new(),
                otherwise: BlockId(1),
                otherwise_args: Vec::new(),
            },
        };
        let function = Function {
            name: format!("{},{}", entry.name, exit.name),
            trigger: both_ends(&exit.trigger),
            types: vec![Type::I64; ADDED_VALUES],
            blocks: vec![start],
            span: exit.span,
        };
        Fused { function, zero }
    }

    fn entry_half(&mut self, entry: &Function, pair: &Pair) {
        let set = |op: Op| match op {
            Op::MapSet { map, value, .. } if map == pair.map => Op::SetSessionCookie { value },
            other => other,
        };
        let first = self.half(entry, set);
        if !pair.always_sets {
            // What another call has left.
            let clear = Inst { result: None, op: Op::SetSessionCookie { value: self.zero } };
            self.function.blocks[first].insts.insert(0, clear);
        }
    }

    fn exit_half(&mut self, exit: &Function, map: MapId) {
        let zero = self.zero;
        let first = self.half(exit, |op| match op {
            Op::MapGet { map: of, .. } if of == map => Op::Builtin(Builtin::SessionCookie),
            Op::MapDelete { map: of, .. } if of == map => Op::SetSessionCookie { value: zero },
            other => other,
        });
        self.drop_unread(first);
    }

    /// Appends the blocks of a function with each operation changed by `change`; the number of the first.
    fn half(&mut self, function: &Function, mut change: impl FnMut(Op) -> Op) -> usize {
        let (values, first) = (self.function.types.len() as u32, self.function.blocks.len());
        let moved = |value: &mut Value| value.0 += values;
        let later = |block: BlockId| BlockId(block.0 + first as u32);
        self.function.types.extend(function.types.iter().cloned());
        for block in &function.blocks {
            let mut block = block.clone();
            block.params.iter_mut().for_each(moved);
            for inst in &mut block.insts {
                inst.result.iter_mut().for_each(moved);
                inst.op.for_each_operand(moved);
                inst.op = change(inst.op.clone());
            }
            block.end.for_each_operand(moved);
            match &mut block.end {
                Terminator::Return | Terminator::Accept => {}
                Terminator::Jump { to, .. } => *to = later(*to),
                Terminator::Branch { then, otherwise, .. } => {
                    (*then, *otherwise) = (later(*then), later(*otherwise));
                }
            }
            self.function.blocks.push(block);
        }
        first
    }

    /// Takes out where a cookie is set that nothing reads again, in the blocks from `first` on.
    fn drop_unread(&mut self, first: usize) {
        let count = self.function.blocks.len();
        let mut reads_from = vec![false; count];
        for index in (first..count).rev() {
            let block = &mut self.function.blocks[index];
            let mut is_read = block.end.successors().any(|(to, _)| reads_from[to.0 as usize]);
            let mut keep = vec![true; block.insts.len()];
            for (at, inst) in block.insts.iter().enumerate().rev() {
                match inst.op {
                    Op::Builtin(Builtin::SessionCookie) => is_read = true,
                    Op::SetSessionCookie { .. } => keep[at] = is_read,
                    _ => {}
                }
            }
            reads_from[index] = is_read;
            let mut keep = keep.into_iter();
            block.insts.retain(|_| keep.next() == Some(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{check, pass, text};

    const SITES: &str = "site \"uprobe:/x:f\" \"f\"\nsite \"uretprobe:/x:f\" \"f\"\n";

    fn script(maps: &str, entry: &str, exit: &str, more: &str) -> String {
        format!(
            "max_map_keys 16\nmap @s[u64] plain u64\n{maps}\n{SITES}fn \"u\" uprobe {{ site \"/x\" \"f\" 0 {entry} }}\n\
             fn \"r\" uretprobe {{ site \"/x\" \"f\" 1 {exit} }}\n{more}"
        )
    }

    /// The module after fusing; it is sound and parses back.
    fn fused(source: &str) -> (bool, String) {
        let mut module = text::parse(source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        check::check(&module).unwrap_or_else(|faults| panic!("{faults:?}\n{source}"));
        let changed = super::run(&mut module, &|_| true, &|_| true);
        pass::optimise(&mut module);
        let printed = text::print(&module);
        check::check(&module).unwrap_or_else(|faults| panic!("{faults:?}\n{printed}"));
        assert_eq!(text::parse(&printed), Ok(module), "{printed}");
        (changed, printed)
    }

    const SETS: &str = "b0: v0: u64 = nsecs v1: u64 = tid set @s[v1], v0 return";
    const FILTERED: &str = "b0: v0: u64 = arg 0 branch v0, b1, b2 b1: v1: u64 = nsecs v2: u64 = tid set @s[v2], v1 return b2: return";
    const READS: &str = "b0: v0: u64 = tid v1: u64 = get @s[v0] branch v1, b1, b2 \
                         b1: v2: u64 = nsecs v3: u64 = get @s[v0] v4: u64 = sub v2, v3 aggregate @h, v4 \
                         delete @s[v0] return b2: return";
    const HAS: &str = "b0: v0: u64 = tid v1: i64 = has @s[v0] branch v1, b1, b2 \
                       b1: v2: u64 = get @s[v0] aggregate @h, v2 delete @s[v0] return b2: return";
    const DELETES: &str = "b0: v0: u64 = tid v1: u64 = get @s[v0] aggregate @h, v1 delete @s[v0] return";
    const H: &str = "map @h hist";

    #[test]
    fn what_people_write_becomes_a_session() {
        let (changed, printed) = fused(&script(H, SETS, READS, ""));
        assert!(changed);
        let code = printed.split_once("session").expect("a session").1;
        for word in ["get ", "set @", "delete", "tid"] {
            assert!(!code.contains(word), "{word} in\n{printed}");
        }
        assert_eq!(printed.matches("fn ").count(), 1, "{printed}");
        assert_eq!(code.matches("set_session_cookie").count(), 1, "{printed}");
    }

    #[test]
    fn a_function_whose_calls_keep_nothing_has_two_clauses() {
        let mut module = text::parse(&script(H, SETS, READS, "")).unwrap();
        assert!(!super::run(&mut module, &|site| site.function != "f", &|_| true));
        assert_eq!(module.functions.len(), 2);
    }

    #[track_caller]
    fn fuses(maps: &str, entry: &str, exit: &str, more: &str) {
        assert!(fused(&script(maps, entry, exit, more)).0, "{entry}\n{exit}\n{more}");
    }

    #[track_caller]
    fn stays(maps: &str, entry: &str, exit: &str, more: &str) {
        assert!(!fused(&script(maps, entry, exit, more)).0, "{entry}\n{exit}\n{more}");
    }

    #[test]
    fn filters_and_questions_are_the_cookie_0() {
        fuses(H, FILTERED, READS, "");
        fuses(H, SETS, HAS, "");
        fuses(H, SETS, DELETES, "");
        let ne = READS.replace("branch v1", "v5: u64 = int 0 v6: i64 = ne v1, v5 branch v6");
        fuses(H, SETS, &ne, "");
        let (_, printed) = fused(&script(H, FILTERED, READS, ""));
        assert_eq!(printed.matches("set_session_cookie").count(), 2, "{printed}");
    }

    #[test]
    fn a_value_that_may_be_0_is_not_known_to_be_absent() {
        let argument = SETS.replace("nsecs", "arg 0");
        stays(H, &argument, READS, "");
        stays(H, &argument, HAS, "");
        fuses(H, &argument, DELETES, "");
    }

    #[test]
    fn what_would_be_left_is_not_fused() {
        stays(H, SETS, &READS.replace("delete @s[v0]", ""), "");
        let half = "b0: v0: u64 = tid v1: u64 = get @s[v0] v2: u64 = reg 0 branch v2, b1, b2 \
                    b1: aggregate @h, v1 delete @s[v0] return b2: return";
        stays(H, SETS, half, "");
    }

    #[test]
    fn other_uses_of_the_map_keep_it() {
        stays(H, &SETS.replace("tid", "pid"), READS, "");
        stays(H, SETS, &READS.replace("tid", "pid"), "");
        stays(H, &SETS.replace("set @s[v1], v0", "v2: u64 = add_to @s[v1], v0"), READS, "");
        stays(
            H,
            SETS,
            READS,
            "fn \"i\" interval 1000 { b0: v0: u64 = tid v1: u64 = get @s[v0] aggregate @h, v1 return }",
        );
        let printing = format!("{H}\naction print_map @s top 0 div 0\naction clear_map @s");
        stays(&printing, SETS, READS, "fn \"e\" end { b0: emit 0() return }");
        fuses(&printing, SETS, READS, "fn \"e\" end { b0: emit 1() return }");
        stays(&printing, SETS, READS, "fn \"e\" interval 1000 { b0: emit 1() return }");
    }

    #[test]
    fn clauses_that_share_more_stay_apart() {
        let maps = format!("{H}\nmap @n[u64] plain u64\nmap @c count");
        let entry = SETS.replace("set @s", "set @n[v1], v0 set @s");
        let exit = READS.replace("delete @s", "delete @n[v0] delete @s");
        stays(&maps, &entry, &exit, "");
        fuses(&maps, &entry, READS, "");
        let counts = |body: &str| body.replace("return", "aggregate @c return");
        fuses(&maps, &counts(SETS), &counts(READS), "");
    }

    #[test]
    fn other_functions_and_names_stay_apart() {
        let source = script(H, SETS, READS, "");
        let other = source.replace("\"f\" 1 ", "\"g\" 1 ");
        assert!(!fused(&other).0);
        let two = source.replace("\"f\" 0 ", "\"f\" 0 site \"/x\" \"g\" 0 ");
        let two = two.replace("\"f\" 1 ", "\"f\" 1 site \"/x\" \"g\" 1 ");
        assert!(!fused(&two).0, "calls of one lie within calls of the other");
        let inside = source.replace("\"f\" 0 ", "\"f+4\" 0 at 4096 ");
        assert!(!fused(&inside).0);
        let named = SETS.replace("b0:", "b0: v2: probe = probe emit 0(v2)");
        let maps = format!("{H}\naction print_value probe at 8");
        stays(&maps, &named, READS, "");
        let named = READS.replace("aggregate", "v5: probe = probe emit 0(v5) aggregate");
        fuses(&maps, SETS, &named, "");
    }

    #[test]
    fn the_order_of_records_stays() {
        let maps = format!("{H}\naction print_value i64 at 8");
        let emits = |body: &str, value: &str| {
            body.replace("b0:", &format!("b0: {value}: i64 = int 1 emit 0({value})"))
        };
        let between =
            "fn \"b\" uprobe { site \"/x\" \"f\" 0 b0: v0: i64 = int 2 emit 0(v0) return }\nfn \"r\"";
        let source = script(&maps, &emits(SETS, "v2"), READS, "");
        assert!(fused(&source).0);
        assert!(!fused(&source.replace("fn \"r\"", between)).0);
        let silent = script(&maps, SETS, &emits(READS, "v5"), "");
        assert!(fused(&silent.replace("fn \"r\"", between)).0);
    }
}
