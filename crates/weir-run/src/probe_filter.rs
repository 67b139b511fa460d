//! `--probe-filter`: a regular expression says which probes of a script run.
//!
//! In: a module, as it is compiled; an expression. Out: the module without the probes in whose full names (`uprobe:/bin/app:main`) the expression is not
//! found. All of the script is checked all the same; `BEGIN` and `END` stay, as in bpftrace.

use anyhow::anyhow;
use weir_event::SiteName;
use weir_ir::{Automaton, Module, Trigger};

use crate::failure::Failure;

/// What is to be found in a probe's name.
pub(crate) struct ProbeFilter {
    expression: String,
    automaton: Automaton,
}

impl ProbeFilter {
    pub(crate) fn new(expression: &str) -> Result<ProbeFilter, Failure> {
        let automaton = weir_filter::regular_expression(expression)
            .map_err(|fault| Failure::Usage(anyhow!("--probe-filter {expression}: {fault}")))?;
        Ok(ProbeFilter { expression: expression.to_owned(), automaton })
    }

    /// Takes out what does not match. Where nothing is left, that is refused.
    pub(crate) fn apply(&self, module: &mut Module) -> Result<(), Failure> {
        let names = &module.schema.sites;
        module.functions.retain_mut(|function| {
            let is_named = |cookie: u64| {
                let name = names.get(cookie as usize);
                name.is_none_or(|SiteName { probe, .. }| self.automaton.matches(probe.as_bytes()))
            };
            match &mut function.trigger {
                Trigger::Begin | Trigger::End | Trigger::Filter => true,
                Trigger::Interval { .. } => {
                    self.automaton.matches(function.name.as_bytes())
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
        match module.functions.is_empty() {
            false => Ok(()),
            true => Err(Failure::Refused(anyhow!(
                "no probes to attach: --probe-filter {} is found in none of their names",
                self.expression
            ))),
        }
    }
}
