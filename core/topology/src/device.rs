//! Devices, and the places near to them.

use crate::{NodeId, Place, Topology};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A device with a place: a function on a PCI bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its address on the bus, `0000:3b:00.0`: domain, bus, device and function.
    pub address: String,
    /// Its use.
    pub kind: DeviceKind,
    /// The operating system's names for it: `eth0`, `mlx5_0`, `nvme0n1`, `card0`. Empty without a driver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The node it hangs on; `None` if the firmware doesn't say.
    pub node: Option<NodeId>,
}

/// The use of a device, by the class that it tells on its bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// Disks, and the controllers of disks.
    Storage,
    /// Network adapters, InfiniBand's among them.
    Network,
    /// Graphics processors: display controllers, with or without a display.
    Gpu,
    /// Processors of other kinds: accelerators and coprocessors.
    Accelerator,
}

impl DeviceKind {
    /// The kind of a class of PCI, in the kernel's form of base class, subclass and interface in 24 bits; `None` for
    /// kinds that are no business of programs, such as bridges.
    ///
    /// ```
    /// use vicus_topology::DeviceKind;
    ///
    /// assert_eq!(DeviceKind::of_class(0x01_08_02), Some(DeviceKind::Storage)); // NVMe
    /// assert_eq!(DeviceKind::of_class(0x06_04_00), None); // a bridge
    /// ```
    pub fn of_class(class: u32) -> Option<DeviceKind> {
        // PCI Code and ID Assignment Specification, revision 1.11, §1.
        match (class >> 16 & 0xff, class >> 8 & 0xff) {
            (0x01, _) => Some(DeviceKind::Storage),
            (0x02, _) | (0x0c, 0x06) => Some(DeviceKind::Network),
            (0x03, _) => Some(DeviceKind::Gpu),
            (0x0b, 0x40) | (0x12, _) => Some(DeviceKind::Accelerator),
            _ => None,
        }
    }

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Storage => "storage",
            DeviceKind::Network => "network",
            DeviceKind::Gpu => "gpu",
            DeviceKind::Accelerator => "accelerator",
        }
    }
}

impl Device {
    /// Whether this is the device of that name: one of its names, its address, or the address without domain 0.
    pub fn is_called(&self, name: &str) -> bool {
        let short = self.address.strip_prefix("0000:");
        self.names.iter().any(|own| own == name)
            || self.address.eq_ignore_ascii_case(name)
            || short.is_some_and(|short| short.eq_ignore_ascii_case(name))
    }
}

/// No place is known for a device of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSuchDevice {
    /// The machine has no device of that name.
    Unknown {
        /// The name.
        name: String,
        /// The names of all devices of the machine, or their addresses.
        known: Vec<String>,
    },
    /// The device is there, but the firmware doesn't say on which node.
    NoNode {
        /// The name.
        name: String,
        /// The device's address.
        address: String,
    },
}

/// The most names in a message: a controller may have thousands of disks.
const MOST_SHOWN: usize = 16;

impl fmt::Display for NoSuchDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoSuchDevice::Unknown { name, known } if known.is_empty() => {
                write!(f, "there is no device `{name}`: no devices are known of this machine")
            }
            NoSuchDevice::Unknown { name, known } => {
                write!(
                    f,
                    "there is no device `{name}`; there are {}",
                    known[..known.len().min(MOST_SHOWN)].join(", ")
                )?;
                match known.len().saturating_sub(MOST_SHOWN) {
                    0 => Ok(()),
                    1 => write!(f, ", and another one"),
                    more => write!(f, ", and {more} others"),
                }
            }
            NoSuchDevice::NoNode { name, address } => write!(
                f,
                "the node of device `{name}` is unknown: /sys/bus/pci/devices/{address}/numa_node names none, as the \
                 firmware doesn't say it; name the node itself"
            ),
        }
    }
}

impl std::error::Error for NoSuchDevice {}

impl Place {
    /// The place near to a device of a machine: [`Topology::near_device`].
    ///
    /// # Errors
    /// There is no such device, or its node is unknown.
    pub fn near_device(machine: &Topology, name: &str) -> Result<Place, NoSuchDevice> {
        machine.near_device(name).map(Place::from)
    }
}

impl Topology {
    /// The device of that name: a name of the operating system (`eth0`, `nvme0n1`) or an address (`0000:3b:00.0`).
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.is_called(name))
    }

    /// The node on which a device hangs: memory that it reads and writes, and threads that serve it, are best there.
    /// On a machine of one node it is that node.
    ///
    /// ```
    /// use vicus_topology::{Device, DeviceKind, Topology};
    ///
    /// let mut machine = Topology::parse("node:2 core:4")?;
    /// let names = vec!["eth0".to_owned()];
    /// let node = Some(machine.nodes[1].id);
    /// machine.devices.push(Device { address: "0000:3b:00.0".to_owned(), kind: DeviceKind::Network, names, node });
    /// assert_eq!(machine.near_device("eth0"), Ok(machine.nodes[1].id));
    /// assert_eq!(machine.near_device("3b:00.0"), Ok(machine.nodes[1].id));
    /// assert_eq!(machine.near_device("eth1").unwrap_err().to_string(), "there is no device `eth1`; there are eth0");
    /// # Ok::<(), vicus_topology::NotationError>(())
    /// ```
    ///
    /// # Errors
    /// There is no such device, or its node is unknown.
    pub fn near_device(&self, name: &str) -> Result<NodeId, NoSuchDevice> {
        let Some(device) = self.device(name) else {
            let names = |device: &Device| match &device.names[..] {
                [] => vec![device.address.clone()],
                names => names.to_vec(),
            };
            return Err(NoSuchDevice::Unknown {
                name: name.to_owned(),
                known: self.devices.iter().flat_map(names).collect(),
            });
        };
        let only = || if self.nodes.len() == 1 { Some(self.nodes[0].id) } else { None };
        let unknown = || NoSuchDevice::NoNode { name: name.to_owned(), address: device.address.clone() };
        device.node.or_else(only).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_node_is_near_to_the_only_one_or_to_none() {
        let device =
            Device { address: "0000:00:03.0".to_owned(), kind: DeviceKind::Storage, names: Vec::new(), node: None };
        let mut single = Topology::parse("core:2").unwrap();
        single.devices.push(device.clone());
        assert_eq!(Place::near_device(&single, "0000:00:03.0"), Ok(Place::Node(single.nodes[0].id)));
        let mut double = Topology::parse("node:2 core:2").unwrap();
        assert!(double.near_device("sda").unwrap_err().to_string().contains("no devices are known"));
        double.devices.push(device);
        let told = double.near_device("00:03.0").unwrap_err().to_string();
        assert!(told.contains("/sys/bus/pci/devices/0000:00:03.0/numa_node"), "{told}");
    }

    #[test]
    fn a_machine_with_devices_reads_back_from_json() {
        let mut machine = Topology::parse("node:2 core:2").unwrap();
        let without = machine.to_json();
        assert!(!without.contains("devices") && !without.contains("speed"));
        let (names, node) = (vec!["card0".to_owned()], Some(machine.nodes[1].id));
        machine.devices.push(Device { address: "0000:c1:00.0".to_owned(), kind: DeviceKind::Gpu, names, node });
        machine.nodes[1].tier = Some(4);
        assert_eq!(Topology::from_json(&machine.to_json()).unwrap(), machine);
    }
}
