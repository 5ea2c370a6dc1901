//! The two ends of a link: namespaces, devices and addresses, created with ip(8).

use costof_os::net::tun::Tun;
use costof_os::process::namespace::{self, Namespace};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Stdio};

/// The address of the other end, that of the server or receiver.
pub const FAR_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// The address of the leading end.
pub const NEAR_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// The IPv6 address of the other end.
pub const FAR_ADDRESS_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc057, 0, 0, 0, 0, 0, 1));
/// The IPv6 address of the leading end.
pub const NEAR_ADDRESS_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc057, 0, 0, 0, 0, 0, 2));

/// The name of the link's device at either end.
pub(crate) const DEVICE: &str = "costof";

/// The two namespaces.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
    /// Whether they belong to a user namespace of this process.
    pub(crate) user: bool,
}

impl Ends {
    /// New namespaces without a name. The calling thread must be the only one; it is in the far
    /// namespace afterwards.
    pub(crate) fn anonymous() -> Result<Ends, String> {
        let (near, user) = first_namespace()?;
        let far = Namespace::new_for_this_thread()
            .map_err(|error| format!("a second network namespace: {error}"))?;
        Ok(Ends { near, far, user })
    }

    /// Joins the ends by a cable (veth).
    pub(crate) fn join_by_cable(&self) -> Result<(), String> {
        let near = format!("/proc/{}/fd/{}", std::process::id(), self.near.descriptor());
        let cable = format!("link add {DEVICE} type veth peer name {DEVICE} netns {near}");
        ip(&self.far, &[&cable])?;
        // Both know each other's hardware address, so neither has to ask for it over a link that
        // delays or loses the question.
        for (is_near, end, others) in [
            (true, &self.near, [FAR_ADDRESS, FAR_ADDRESS_V6]),
            (false, &self.far, [NEAR_ADDRESS, NEAR_ADDRESS_V6]),
        ] {
            // With `arp off`, a device joins no multicast group for neighbour solicitation, which
            // it would announce to the other end within the first seconds.
            let own = hardware_address(is_near);
            let own = format!("link set {DEVICE} arp off address {own}");
            self.set_up(is_near, own)?;
            let other = hardware_address(!is_near);
            let known: Vec<String> = others
                .iter()
                .filter(|address| address.is_ipv4() || has_ipv6())
                .map(|address| format!("neighbour replace {address} lladdr {other} dev {DEVICE}"))
                .collect();
            ip(end, &known)?;
        }
        Ok(())
    }

    /// A TUN device at each end, near and far. The calling thread is in the far namespace
    /// afterwards.
    pub(crate) fn tuns(&self) -> Result<(Tun, Tun), String> {
        let open = |end: &Namespace| end.enter().and_then(|()| Tun::new(DEVICE));
        let tuns = open(&self.near).and_then(|near| Ok((near, open(&self.far)?)));
        let tuns = tuns.map_err(|error| {
            format!(
                "a TUN device: {error} (it needs the kernel's tun driver, and the right to open /dev/net/tun: chmod 666 /dev/net/tun, or root)"
            )
        })?;
        // Packets that the relay has not read yet wait there: some milliseconds of them.
        let queue = format!("link set {DEVICE} txqueuelen 5000 mtu 1500 multicast off");
        for is_near in [true, false] {
            self.set_up(is_near, queue.clone())?;
        }
        Ok(tuns)
    }

    /// After these commands, gives the device at this end its addresses and brings it up. It sends
    /// no announcements: the link should carry only the measurement's packets.
    fn set_up(&self, is_near: bool, first: String) -> Result<(), String> {
        let (end, v4, v6) = if is_near {
            (&self.near, NEAR_ADDRESS, NEAR_ADDRESS_V6)
        } else {
            (&self.far, FAR_ADDRESS, FAR_ADDRESS_V6)
        };
        let mut commands = vec![first, format!("address add {v4}/24 dev {DEVICE}")];
        if has_ipv6() {
            commands.push(format!("link set {DEVICE} addrgenmode none"));
            commands.push(format!("address add {v6}/64 dev {DEVICE} nodad"));
        }
        commands.push(format!("link set {DEVICE} up"));
        commands.push("link set lo up".to_owned());
        ip(end, &commands)
    }
}

/// On a machine without IPv6, links have no IPv6 either.
fn has_ipv6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

/// A locally administered address.
fn hardware_address(is_near: bool) -> &'static str {
    if is_near { "02:c0:57:00:00:02" } else { "02:c0:57:00:00:01" }
}

/// A network namespace; without the permission for it, one in a new user namespace.
fn first_namespace() -> Result<(Namespace, bool), String> {
    if let Ok(namespace) = Namespace::new_for_this_thread() {
        return Ok((namespace, false));
    }
    namespace::become_root_of_new_user_namespace().map_err(|error| {
        format!(
            "network namespaces need root or user namespaces, and {error} \
             (kernel.unprivileged_userns_clone, user.max_user_namespaces, \
             kernel.apparmor_restrict_unprivileged_userns)"
        )
    })?;
    let namespace = Namespace::new_for_this_thread()
        .map_err(|error| format!("a network namespace of an own user namespace: {error}"))?;
    Ok((namespace, true))
}

/// Runs these commands of ip(8) in a namespace.
pub(crate) fn ip(namespace: &Namespace, commands: &[impl AsRef<str>]) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]);
    let commands: Vec<&str> = commands.iter().map(AsRef::as_ref).collect();
    succeed(namespace, command, &commands.join("\n"))
}

/// Runs tc(8) in a namespace.
pub(crate) fn tc<'a>(
    namespace: &Namespace,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<(), String> {
    let mut command = Command::new("tc");
    command.args(words);
    succeed(namespace, command, "")
}

/// Runs a program that uses iproute2 in a namespace, given `input`.
pub(crate) fn succeed(
    namespace: &Namespace,
    mut command: Command,
    input: &str,
) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    namespace.start_in(&mut command).map_err(|error| error.to_string())?;
    let missing = |error| format!("cannot run {name}: {error} (Debian: apt-get install iproute2)");
    let mut child = command.spawn().map_err(missing)?;
    let written = child.stdin.take().map(|mut to| to.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.success() && !matches!(written, Some(Err(_))) {
        return Ok(());
    }
    // Its usage text may follow.
    let says = String::from_utf8_lossy(&output.stderr);
    let says = says.lines().find(|line| !line.trim().is_empty());
    let asked = match input {
        "" => {
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        }
        input => input.replace('\n', "; "),
    };
    Err(format!("`{name} {asked}`: {}", says.unwrap_or("failed").trim()))
}
