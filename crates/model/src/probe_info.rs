//! A probe's description, as plain data: `list`, `explain`, the run file, the report and the docs
//! show it.

use crate::relation::are_none;
use crate::{Alias, Axes, Axis, List, MetricInfo, Relation, Text, nearest};
use serde::{Deserialize, Serialize};

/// One question with a number for an answer. The type has no default values, so a probe without a
/// source does not compile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeInfo {
    /// `layer.thing`; its meaning never changes.
    pub id: Text,
    /// The version of the method; numbers of different methods are not compared.
    pub method: u32,
    /// The question, as a person asks it.
    pub question: Text,
    /// What it varies.
    pub axes: List<Axis>,
    /// Sets of axes of which a run of this probe measures all combinations. It varies each of the
    /// other axes alone, from the defaults.
    pub crossings: List<List<Text>>,
    /// What it measures, the primary metric first.
    #[serde(deserialize_with = "crate::read_some")]
    pub metrics: List<MetricInfo>,
    /// How it is measured, and what the number contains.
    pub how: Text,
    /// The papers, manuals and kernel documents that it relies on.
    pub sources: List<Text>,
    /// What its predictions are computed from, in words.
    pub predicted_from: Text,
    /// Probes whose points its predictions use; they are measured first.
    pub after: List<Text>,
    /// What the machine must offer.
    pub needs: List<Text>,
    /// Relations between its points and others of the same run.
    #[serde(default, skip_serializing_if = "are_none")]
    pub relations: List<Relation>,
    /// Its roles, in the order in which they are prepared; the last one leads.
    pub roles: List<Text>,
    /// The names that its points had before.
    #[serde(default, skip_serializing_if = "are_none")]
    pub aliases: List<Alias>,
}

impl ProbeInfo {
    /// Whether its roles are two ends that connect over a link.
    pub fn needs_link(&self) -> bool {
        self.roles.len() > 1
    }

    /// The layer, which is the id up to the first dot.
    pub fn layer(&self) -> &str {
        crate::point::layer(&self.id)
    }

    /// The metric that answers the question.
    ///
    /// # Panics
    /// If the probe has no metrics, which is a bug.
    pub fn primary(&self) -> &MetricInfo {
        self.metrics.first().expect("a probe has a primary metric")
    }

    /// The default value on every axis.
    pub fn defaults(&self) -> Axes {
        Axes::defaults(self.axes.iter())
    }

    /// Whether these are its axes, each with an allowed value.
    pub fn allows(&self, given: &Axes) -> bool {
        let may_be = |axis: &Axis| {
            let value = given.0.get(&axis.name);
            value.is_some_and(|value| axis.allows(value))
        };
        given.0.len() == self.axes.len() && self.axes.iter().all(may_be)
    }

    /// The axis called `name`.
    ///
    /// # Errors
    /// A sentence with the probe, the axis and the nearest correct name.
    pub fn axis(&self, name: &str) -> Result<&Axis, String> {
        let axis = self.axes.iter().find(|axis| axis.name == name);
        axis.ok_or_else(|| {
            let id = &self.id;
            let names: Vec<&str> = self.axes.iter().map(|axis| &*axis.name).collect();
            if names.is_empty() {
                return format!("{id} has no axes, so none named `{name}`");
            }
            let hint = nearest::hint(name, names.iter().copied());
            let names = names.join(", ");
            format!("{id} has no axis `{name}`{hint} (axes: {names})")
        })
    }
}
