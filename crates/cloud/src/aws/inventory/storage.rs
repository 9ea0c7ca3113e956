//! EBS volumes and snapshots, and Elastic IP addresses.

use std::collections::BTreeMap;

use aws_sdk_ec2::operation::describe_images::builders::DescribeImagesFluentBuilder;
use aws_sdk_ec2::types::{
    Address as Ec2Address, Image, Snapshot as Ec2Snapshot, StorageTier, Tag, Volume as Ec2Volume,
};
use ebb_model::inventory::storage::{Address, Snapshot, Volume};
use ebb_telemetry::identity::{AccountId, NodeId, Region};

use super::super::error::cloud_error;
use super::super::time::timestamp;
use super::region_part::{Clients, Part};
use crate::permissions::{
    DESCRIBE_ADDRESSES, DESCRIBE_IMAGES, DESCRIBE_SNAPSHOTS, DESCRIBE_VOLUMES,
};

/// Maximum number of entries in one page.
const PAGE: i32 = 1_000;

/// Without this owner, EC2 returns all public snapshots and images.
const OWN: &str = "self";

/// The volume id of a snapshot that was copied.
///
/// Source: EC2 API reference, `Snapshot`, `volumeId`: "Snapshots created by a copy
/// snapshot operation have an arbitrary volume ID that you should not use".
const NO_VOLUME: &str = "vol-ffffffff";

/// All volumes of the region.
pub(super) async fn volumes(clients: &Clients) -> Part<Volume> {
    let mut part = Part::default();
    let call = clients.ec2.describe_volumes().into_paginator();
    let pages = call.page_size(PAGE).send();
    paged!(part, DESCRIBE_VOLUMES, "volumes", pages, |page| {
        for ec2_volume in page.volumes() {
            part.take(DESCRIBE_VOLUMES, volume(ec2_volume, &clients.region));
        }
    });
    part
}

/// The account's own snapshots, each with the images that use it. If images could not be read, no
/// snapshot can be reported as unused.
pub(super) async fn snapshots(clients: &Clients) -> Part<Snapshot> {
    let mut part = Part::default();
    let call = clients.ec2.describe_snapshots().owner_ids(OWN);
    let pages = call.into_paginator().page_size(PAGE).send();
    paged!(part, DESCRIBE_SNAPSHOTS, "snapshots", pages, |page| {
        for ec2_snapshot in page.snapshots() {
            part.take(DESCRIBE_SNAPSHOTS, snapshot(ec2_snapshot, &clients.region));
        }
    });
    if part.found.is_empty() {
        return part;
    }
    let images = images(clients).await;
    if images.refused.is_empty() {
        let mut by_snapshot: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (snapshot, image) in images.found {
            by_snapshot.entry(snapshot).or_default().push(image);
        }
        for snapshot in &mut part.found {
            snapshot.images = Some(by_snapshot.remove(&snapshot.id).unwrap_or_default());
        }
    }
    part.refused.extend(images.refused);
    part
}

/// The snapshots that the account's own images use, each with an image.
async fn images(clients: &Clients) -> Part<(String, String)> {
    let mut part = Part::default();
    let call = own_images(clients).into_paginator();
    let pages = call.page_size(PAGE).send();
    paged!(part, DESCRIBE_IMAGES, "images", pages, |page| {
        part.found.extend(page.images().iter().flat_map(made_of));
    });
    part
}

/// EC2 leaves out disabled images unless the call asks for them. An owner can enable such an image
/// again, so it needs its snapshots.
fn own_images(clients: &Clients) -> DescribeImagesFluentBuilder {
    let call = clients.ec2.describe_images();
    call.owners(OWN).include_disabled(true)
}

fn made_of(image: &Image) -> impl Iterator<Item = (String, String)> {
    let id = image.image_id().unwrap_or_default();
    let disks = image.block_device_mappings().iter();
    let snapshots = disks.filter_map(|disk| disk.ebs()?.snapshot_id());
    snapshots.map(move |snapshot| (snapshot.to_owned(), id.to_owned()))
}

/// All addresses of the region, which are on one page.
pub(super) async fn addresses(clients: &Clients) -> Part<Address> {
    let mut part = Part::default();
    match clients.ec2.describe_addresses().send().await {
        Ok(answer) => {
            for ec2_address in answer.addresses() {
                part.take(DESCRIBE_ADDRESSES, address(ec2_address, &clients.region));
            }
        }
        Err(error) => {
            let refused = cloud_error(DESCRIBE_ADDRESSES, "addresses", &error);
            part.refused.push(refused);
        }
    }
    part
}

fn volume(ec2_volume: &Ec2Volume, region: &Region) -> Result<Volume, String> {
    let id = ec2_volume.volume_id().ok_or("volume without an id")?;
    let missing = |what: &str| format!("{id}: no {what}");
    let size = ec2_volume.size().and_then(|gib| u64::try_from(gib).ok());
    let attached = ec2_volume
        .attachments()
        .iter()
        .filter_map(|a| a.instance_id());
    Ok(Volume {
        id: id.to_owned(),
        account: None,
        region: region.clone(),
        volume_type: ec2_volume
            .volume_type()
            .map(|t| t.as_str().to_owned())
            .ok_or_else(|| missing("type"))?,
        size_gib: size.ok_or_else(|| missing("size"))?,
        created_at: ec2_volume.create_time().and_then(timestamp),
        attached_to: attached
            .map(|id| NodeId::new(id).map_err(|e| e.to_string()))
            .collect::<Result<_, _>>()?,
        tags: tags(ec2_volume.tags()),
    })
}

fn address(ec2_address: &Ec2Address, region: &Region) -> Result<Address, String> {
    let id = ec2_address
        .allocation_id()
        .ok_or("address without an allocation id")?;
    let association = [
        ec2_address.association_id(),
        ec2_address.instance_id(),
        ec2_address.network_interface_id(),
    ];
    let of = association.into_iter().flatten().find(|id| !id.is_empty());
    Ok(Address {
        id: id.to_owned(),
        account: None,
        region: region.clone(),
        public_ip: ec2_address.public_ip().map(str::to_owned),
        association: of.map(str::to_owned),
        tags: tags(ec2_address.tags()),
    })
}

fn snapshot(ec2_snapshot: &Ec2Snapshot, region: &Region) -> Result<Snapshot, String> {
    let id = ec2_snapshot.snapshot_id().ok_or("snapshot without an id")?;
    let size = ec2_snapshot
        .volume_size()
        .and_then(|gib| u64::try_from(gib).ok());
    let of = ec2_snapshot.volume_id().filter(|id| *id != NO_VOLUME);
    let stored = ec2_snapshot.full_snapshot_size_in_bytes();
    Ok(Snapshot {
        id: id.to_owned(),
        account: ec2_snapshot
            .owner_id()
            .and_then(|id| AccountId::new(id).ok()),
        region: region.clone(),
        volume: of.map(str::to_owned),
        size_gib: size.ok_or_else(|| format!("{id}: no size"))?,
        stored_bytes: stored.and_then(|bytes| u64::try_from(bytes).ok()),
        created_at: ec2_snapshot.start_time().and_then(timestamp),
        images: None,
        archived: ec2_snapshot.storage_tier() == Some(&StorageTier::Archive),
        tags: tags(ec2_snapshot.tags()),
    })
}

fn tags(ec2_tags: &[Tag]) -> BTreeMap<String, String> {
    let tags = ec2_tags.iter().filter_map(|tag| {
        let value = tag.value().unwrap_or_default();
        Some((tag.key()?.to_owned(), value.to_owned()))
    });
    tags.collect()
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types::{VolumeAttachment, VolumeType};

    use super::*;
    use crate::aws::AwsConfig;

    fn region() -> Region {
        Region::new("eu-west-1").expect("a region")
    }

    #[test]
    fn a_volume_is_read_as_ec2_describes_it() {
        let attached = VolumeAttachment::builder().instance_id("i-1").build();
        let builder = Ec2Volume::builder()
            .volume_id("vol-1")
            .volume_type(VolumeType::Gp2)
            .size(100);
        let read = volume(&builder.clone().attachments(attached).build(), &region());
        let read = read.expect("it is whole");
        assert_eq!((read.volume_type.as_str(), read.size_gib), ("gp2", 100));
        assert_eq!(read.attached_to.len(), 1);
        let alone = volume(&builder.clone().build(), &region()).expect("it is whole");
        assert!(alone.attached_to.is_empty());
        let bad = volume(&builder.set_size(None).build(), &region());
        assert_eq!(bad, Err("vol-1: no size".to_owned()));
    }

    #[test]
    fn a_snapshot_names_its_volume_and_an_image_its_snapshots() {
        use aws_sdk_ec2::types::{BlockDeviceMapping, EbsBlockDevice};
        let builder = Ec2Snapshot::builder().snapshot_id("snap-1").volume_size(8);
        let of = |volume: &str| snapshot(&builder.clone().volume_id(volume).build(), &region());
        assert_eq!(of("vol-1").expect("whole").volume.as_deref(), Some("vol-1"));
        assert_eq!(of(NO_VOLUME).expect("whole").volume, None);
        let disk = EbsBlockDevice::builder().snapshot_id("snap-1").build();
        let image = Image::builder()
            .image_id("ami-1")
            .block_device_mappings(BlockDeviceMapping::builder().ebs(disk).build())
            .block_device_mappings(BlockDeviceMapping::builder().virtual_name("x").build())
            .build();
        let pairs: Vec<_> = made_of(&image).collect();
        assert_eq!(pairs, [("snap-1".to_owned(), "ami-1".to_owned())]);
    }

    #[tokio::test]
    async fn a_disabled_image_is_listed_because_it_needs_its_snapshots() {
        let config = AwsConfig::load(Some(&region())).await;
        let call = own_images(&Clients::new(&config, &region()));
        assert_eq!(call.get_include_disabled(), &Some(true));
        assert_eq!(call.get_owners().as_deref(), Some(&[OWN.to_owned()][..]));
    }

    #[test]
    fn an_address_is_idle_only_when_nothing_has_it() {
        let check = |association: Option<&str>, interface: Option<&str>, expect: Option<&str>| {
            let ec2_address = Ec2Address::builder()
                .allocation_id("eipalloc-1")
                .set_association_id(association.map(str::to_owned))
                .set_network_interface_id(interface.map(str::to_owned))
                .build();
            let read = address(&ec2_address, &region()).expect("it is whole");
            assert_eq!(read.association.as_deref(), expect);
        };
        check(None, None, None);
        check(Some(""), None, None);
        check(Some("eipassoc-1"), None, Some("eipassoc-1"));
        check(None, Some("eni-1"), Some("eni-1"));
    }
}
