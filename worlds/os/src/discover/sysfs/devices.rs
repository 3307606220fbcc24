//! Devices on PCI buses, their names and nodes.

use super::Files;
use crate::discover::shape::{FoundDevice, Shape};
use crate::set::shortened;
use std::collections::BTreeMap;
use vicus_topology::DeviceKind;

/// Folders of the devices' names, by what programs call them.
const CLASSES: [&str; 6] = [
    "sys/class/net",
    "sys/block",
    "sys/class/drm",
    "sys/class/infiniband",
    "sys/class/accel",
    // A controller that shares its disks with others is known by its own name, too.
    "sys/class/nvme",
];
/// The most names of one device: a controller may have thousands of disks.
const MOST_NAMES: usize = 1 << 12;

pub(super) fn read(files: &mut Files<'_>, shape: &Shape) -> Vec<FoundDevice> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for class in CLASSES {
        for name in files.names(class) {
            // Connectors of a display are no devices: `card0-HDMI-A-1`.
            if class.ends_with("drm") && name.contains('-') {
                continue;
            }
            let Ok(target) = std::fs::read_link(files.path(&format!("{class}/{name}"))) else { continue };
            // The last address on the way: those before it are bridges. What is virtual has none.
            let address = target.iter().rev().find_map(|part| part.to_str().filter(|part| is_address(part)));
            let Some(address) = address else { continue };
            let of = names.entry(address.to_owned()).or_default();
            let name = disk_of_way(&name).unwrap_or(name);
            if of.len() < MOST_NAMES && of.last() != Some(&name) {
                of.push(name);
            }
        }
    }
    let mut devices = Vec::new();
    for address in files.names("sys/bus/pci/devices").into_iter().filter(|name| is_address(name)) {
        let file = |file: &str| format!("sys/bus/pci/devices/{address}/{file}");
        let class = files.parsed(&file("class"), |text| {
            let class = text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
            class.ok_or_else(|| format!("`{}` is no class such as 0x020000", shortened(text)))
        });
        let Some(kind) = class.and_then(DeviceKind::of_class) else { continue };
        let number = files.parsed(&file("numa_node"), |text| {
            text.parse::<i64>().map_err(|_| format!("`{}` is no number", shortened(text)))
        });
        // -1 is unknown.
        let node = number.and_then(|number| u32::try_from(number).ok());
        if let Some(number) = node
            && !shape.nodes.iter().any(|node| node.os_index == number)
        {
            let path = files.path(&file("numa_node"));
            files.warn(format!("{}: there is no node {number}; it is taken as missing", path.display()));
        }
        let names = names.remove(&address).unwrap_or_default();
        devices.push(FoundDevice { address, kind, names, node });
    }
    devices
}

/// The disk `nvme0n1` of `nvme0c3n1`, a hidden way to it by one controller. The disk itself is of the subsystem, and
/// has no address (nvme_mpath_set_disk_name of drivers/nvme/host/multipath.c).
fn disk_of_way(name: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (subsystem, way) = name.strip_prefix("nvme")?.split_once('c')?;
    let (controller, disk) = way.split_once('n')?;
    [subsystem, controller, disk].into_iter().all(is_number).then(|| format!("nvme{subsystem}n{disk}"))
}

/// Whether a name is an address on a PCI bus: `0000:3b:00.0`. Domains have four digits or more.
fn is_address(name: &str) -> bool {
    let bytes = name.as_bytes();
    let hex = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_hexdigit);
    let Some(domain) = bytes.len().checked_sub(8) else { return false };
    (4..=8).contains(&domain)
        && hex(0..domain)
        && (bytes[domain], bytes[domain + 3], bytes[domain + 6]) == (b':', b':', b'.')
        && hex(domain + 1..domain + 3)
        && hex(domain + 4..domain + 6)
        && (b'0'..=b'7').contains(&bytes[domain + 7])
}
