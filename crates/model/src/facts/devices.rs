//! Disks, what is mounted from them, and network devices.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A block device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// The kernel's name: `nvme0n1`.
    pub name: String,
    /// The vendor's name for it.
    pub model: Option<String>,
    /// What it is.
    pub kind: DiskKind,
    /// The disks that it is made of (an array, an encrypted or logical volume).
    pub parts: Vec<String>,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// The I/O scheduler in use: `none`, `mq-deadline`.
    pub scheduler: Option<String>,
}

/// What a block device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskKind {
    /// Rotating platters.
    Rotational,
    /// Solid state behind SATA or SAS.
    Ssd,
    /// NVMe, which on clouds may be a network volume too (`model` then says which).
    Nvme,
    /// A virtual machine's disk; what lies behind it is unknown.
    Virtual,
    /// An SD card or eMMC.
    Mmc,
    /// An array of the kernel's (md).
    Raid,
    /// A mapped volume: encrypted, logical (dm).
    Mapped,
    /// A file served as a disk.
    Loop,
    /// Memory served as a disk (zram, brd, pmem).
    Memory,
    /// None of these.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileSystem {
    /// Where it is mounted.
    pub mount_point: String,
    /// `ext4`, `xfs`, `btrfs`, `overlay`, `tmpfs`, `nfs4`.
    pub kind: String,
    /// The disk that it lies on, by [`Disk::name`].
    pub disk: Option<String>,
    /// How it is mounted, the file system's own options included.
    pub options: String,
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkDevice {
    /// The kernel's name: `eth0`.
    pub name: String,
    /// The driver: `virtio_net`, `mlx5_core`, `ena`.
    pub driver: Option<String>,
    /// The link's rate, where the driver reports it.
    pub speed_bits_per_s: Option<u64>,
    /// `full` or `half`, where the driver reports it.
    pub duplex: Option<String>,
    /// What the driver has counted since it was loaded, packets and what went wrong with them, by the kernel's names:
    /// `rx_crc_errors`. Only of devices with a bus, and only counts above zero.
    pub counts: BTreeMap<String, u64>,
    /// What its bus (PCI Express) lets through each way, less the encoding, where it has one.
    pub bus_bits_per_s: Option<u64>,
    /// The largest packet.
    pub mtu_bytes: Option<u32>,
    /// `up`, `down`, `unknown`.
    pub state: Option<String>,
}
