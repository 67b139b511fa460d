//! Which probes of a script run: `--probe-filter`, `--test` and `--bench`.
//!
//! In: a module, as it is compiled; what is asked for. Out: the module without the others. All of the script is checked all the same; `BEGIN` and `END` stay,
//! as in bpftrace.

use anyhow::anyhow;
use weir_event::SiteName;
use weir_ir::{Asked, Automaton, Module, Trigger};

use crate::failure::Failure;
use crate::options::Mode;

/// Probes in whose full names (`uprobe:/bin/app:main`) an expression is found, of those that run in a mode.
pub(crate) struct ProbeFilter {
    mode: Mode,
    expression: Option<(String, Automaton)>,
}

impl ProbeFilter {
    pub(crate) fn new(mode: Mode, expression: Option<&str>) -> Result<ProbeFilter, Failure> {
        let automaton = |expression: &str| {
            let automaton = weir_filter::regular_expression(expression);
            automaton.map_err(|fault| Failure::Usage(anyhow!("--probe-filter {expression}: {fault}")))
        };
        let expression = match expression {
            Some(text) => Some((text.to_owned(), automaton(text)?)),
            None => None,
        };
        Ok(ProbeFilter { mode, expression })
    }

    /// Takes out what does not run. Where nothing is left, that is refused.
    pub(crate) fn apply(&self, module: &mut Module) -> Result<(), Failure> {
        let (names, had_any) = (&module.schema.sites, !module.functions.is_empty());
        let of_mode = |trigger: &Trigger| match (self.mode, trigger) {
            (_, Trigger::Begin | Trigger::End) => true,
            (Mode::Trace, Trigger::Asked { by }) => *by == Asked::Signal,
            (Mode::Test, Trigger::Asked { by }) => *by == Asked::Test,
            (Mode::Bench, Trigger::Asked { by }) => *by == Asked::Bench,
            (mode, _) => mode == Mode::Trace,
        };
        let left_out = module.functions.iter().find(|function| !of_mode(&function.trigger));
        let left_out = left_out.map(|function| function.trigger.clone());
        module.functions.retain_mut(|function| {
            if !of_mode(&function.trigger) {
                return false;
            }
            let matches = |name: &str| {
                self.expression.as_ref().is_none_or(|(_, automaton)| automaton.matches(name.as_bytes()))
            };
            let is_named =
                |cookie: u64| names.get(cookie as usize).is_none_or(|SiteName { probe, .. }| matches(probe));
            match &mut function.trigger {
                Trigger::Begin | Trigger::End | Trigger::Filter => true,
                Trigger::Interval { .. } | Trigger::Asked { .. } | Trigger::Kernel { .. } => {
                    matches(&function.name)
                }
                Trigger::Uprobe { sites } | Trigger::Uretprobe { sites } | Trigger::Session { sites } => {
                    sites.retain(|site| is_named(site.cookie));
                    !sites.is_empty()
                }
                Trigger::Usdt { sites } => {
                    sites.retain(|site| is_named(site.cookie));
                    !sites.is_empty()
                }
            }
        });
        if !module.functions.is_empty() || !had_any {
            return Ok(());
        }
        Err(Failure::Refused(match (left_out, &self.expression) {
            (Some(Trigger::Asked { by: Asked::Test }), _) => {
                anyhow!("no probes attached; use --test to run test probes")
            }
            (Some(Trigger::Asked { by: Asked::Bench }), _) => {
                anyhow!("no probes attached; use --bench to run benchmark probes")
            }
            (_, Some((expression, _))) => {
                anyhow!("no probes to attach: --probe-filter {expression} is found in none of their names")
            }
            (..) => anyhow!("no probes to attach: tests and benchmarks have `test:NAME` and `bench:NAME`"),
        }))
    }
}
