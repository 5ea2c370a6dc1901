//! The machine: first what decides costs, then all facts in the file.

use costof_model::facts::CacheKind;
use costof_model::{Facts, Run, Unit, display_bytes};
use maud::{Markup, html};
use serde_json::Value;

/// At most this many values of a list are shown.
pub(super) const SHOWN: usize = 200;
/// Where the firmware lists the memory modules.
const DMI: &str = "/sys/firmware/dmi/tables/DMI";

pub(super) fn section(run: &Run) -> Markup {
    html! {
        @match run.attempts.last() {
            None => p { "The run file does not describe it." },
            Some(attempt) => {
                @for (role, facts) in &attempt.hosts {
                    @if attempt.hosts.len() > 1 {
                        h3 { @if role == "only" { "The measuring end" } @else { "The other end" } }
                    }
                    dl.facts { @for (name, value) in costly(facts) {
                        @if let Some(value) = value { dt { (name) } dd { (value) } }
                    } }
                    details.numbers {
                        summary { "All recorded facts" }
                        pre.tree { (tree(&serde_json::to_value(facts).unwrap_or_default(), 0)) }
                    }
                }
            }
        }
    }
}

/// The facts that decide costs.
fn costly(facts: &Facts) -> Vec<(&'static str, Option<String>)> {
    let cpu = &facts.cpu;
    let counted = |count: Option<u32>, what: &str| count.map(|count| format!("{count} {what}"));
    let processors = [
        counted(cpu.socket_count, "sockets"),
        counted(cpu.physical_count, "cores"),
        counted(cpu.logical_count, "processors"),
        cpu.smt_active.map(|on| format!("SMT {}", if on { "on" } else { "off" })),
    ];
    let caches = cpu.caches.iter().map(|cache| {
        let kind = match cache.kind {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified | CacheKind::Unknown => "",
        };
        let ways = cache.ways.map_or_else(String::new, |ways| format!(", {ways} ways"));
        format!("L{}{kind} {}{ways}", cache.level, display_bytes(cache.size_bytes))
    });
    let policies = facts.frequency.policies.iter();
    let mut governors: Vec<&str> = policies.filter_map(|one| one.governor.as_deref()).collect();
    governors.dedup();
    let clock = [
        facts.frequency.driver.clone(),
        (!governors.is_empty()).then(|| format!("governor {}", governors.join(", "))),
        cpu.base.as_ref().map(|at| format!("base {}", Unit::Hertz.display(at.hz as f64))),
        cpu.max.as_ref().map(|at| format!("up to {}", Unit::Hertz.display(at.hz as f64))),
    ];
    let idle = facts.idle.states.iter().map(|state| state.name.clone());
    let mitigations =
        cpu.vulnerabilities.iter().filter(|(_, what)| !what.starts_with("Not affected"));
    let mitigations = mitigations.map(|(name, what)| format!("{name}: {what}"));
    let virtualization = &facts.virtualization;
    let disks = facts.disks.iter().map(|disk| {
        let size = disk
            .size_bytes
            .map_or_else(String::new, |size| format!(", {:.0} GB", size as f64 / 1e9));
        let kind = serde_json::to_value(disk.kind).unwrap_or_default();
        let kind = kind.as_str().unwrap_or_default().replace('_', " ");
        format!("{} ({kind}{size})", disk.name)
    });
    let networks = facts.network_devices.iter().map(|device| {
        let mtu = device.mtu_bytes.map_or_else(String::new, |mtu| format!(", MTU {mtu}"));
        let bus = device.bus_bits_per_s;
        let bus = bus.map_or_else(String::new, |bus| format!(", bus {}", bits_per_s(bus)));
        let speed = device.speed_bits_per_s.map_or_else(
            || match &device.driver {
                Some(driver) => format!(", no speed reported by {driver}"),
                None => String::new(),
            },
            |speed| format!(", {}", bits_per_s(speed)),
        );
        format!("{}{mtu}{speed}{bus}", device.name)
    });
    vec![
        ("processor", cpu.model_name.clone()),
        ("processors", joined(processors.into_iter().flatten())),
        ("caches", joined(caches)),
        ("clock", joined(clock.into_iter().flatten())),
        ("idle states", joined(idle)),
        (
            "memory",
            facts
                .memory
                .total_bytes
                .map(|bytes| format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64)),
        ),
        ("memory bus, in theory", Some(memory_bus(facts))),
        ("memory nodes", (facts.numa.len() > 1).then(|| facts.numa.len().to_string())),
        ("huge pages", facts.huge_pages.transparent.clone()),
        ("kernel", facts.kernel.release.clone()),
        ("preemption", facts.kernel.preemption.clone()),
        ("kernel's clock source", facts.clock_source.current.clone()),
        ("hypervisor", virtualization.hypervisor.clone()),
        ("container", virtualization.container.clone()),
        ("mitigations", joined(mitigations)),
        ("disks", joined(disks)),
        ("network devices", joined(networks)),
        ("host", facts.host_name.clone()),
    ]
}

fn bits_per_s(rate: u64) -> String {
    format!("{} Gb/s", rate as f64 / 1e9)
}

/// What the memory modules can transfer together, or why that is not known.
fn memory_bus(facts: &Facts) -> String {
    let memory = &facts.memory;
    if let (Some(rate), Some(channels)) = (memory.modules_bytes_per_s(), memory.channel_count) {
        let rate = Unit::BytesPerSecond.display(rate);
        return format!("{rate}, by its modules on {channels} channels");
    }
    let why = match (facts.why_unread(DMI), memory.dimms.len()) {
        (Some(why), _) => format!("{DMI} cannot be read: {why}"),
        (None, 0) if facts.virtualization.virtual_machine == Some(true) => {
            "the firmware of this virtual machine lists no memory modules".to_owned()
        }
        (None, 0) => "the firmware lists no memory modules".to_owned(),
        (None, count) => format!("the firmware lists {count} modules without channel or speed"),
    };
    format!("not known: {why}")
}

fn joined(parts: impl Iterator<Item = String>) -> Option<String> {
    let parts: Vec<String> = parts.take(SHOWN).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Names and values, one on a line, indented by depth. Empty and unknown values are left out.
fn tree(value: &Value, depth: usize) -> String {
    match value {
        Value::Object(entries) => {
            let entries = entries.iter().filter(|(_, value)| says(value));
            let line = |(name, value): (&String, &Value)| {
                let name = name.replace('_', " ");
                format!("\n{}{name}: {}", "  ".repeat(depth), tree(value, depth + 1))
            };
            entries.map(line).collect()
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            let values = values.iter().take(SHOWN).map(|value| tree(value, depth));
            values.collect::<Vec<_>>().join("\n")
        }
        Value::Array(values) => {
            let values = values.iter().take(SHOWN).map(plain);
            values.collect::<Vec<_>>().join(" ")
        }
        value => plain(value),
    }
}

fn says(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(entries) => entries.values().any(says),
        Value::Array(values) => !values.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        value => value.to_string(),
    }
}
