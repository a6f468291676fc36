package wire

import (
	"strconv"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// describeVolumes lists volumes. Its pages may have 500 volumes at most, unverified as the SDK does not say it any more.
func (c *Call) describeVolumes() error {
	return list(c, "volumeSet", listing[*ec2.Volume]{
		ids: "VolumeId", set: "volumeSet", least: 5, most: 500,
		fields: withTags(func(v *ec2.Volume) map[string]string { return v.Tags }, query.Fields[*ec2.Volume]{
			"attachment.instance-id": is(func(v *ec2.Volume) string { return v.InstanceID }),
			"attachment.device":      is(func(v *ec2.Volume) string { return v.Device }),
			"availability-zone":      is(func(v *ec2.Volume) string { return v.Zone }),
			"availability-zone-id":   is(func(v *ec2.Volume) string { return c.Region.ZoneID(v.Zone) }),
			"size":                   is(func(v *ec2.Volume) string { return strconv.Itoa(v.Size) }),
			"status":                 is(func(v *ec2.Volume) string { return v.State }),
			"volume-id":              is(func(v *ec2.Volume) string { return v.ID }),
			"volume-type":            is(func(v *ec2.Volume) string { return v.Type }),
		}),
		find: c.Region.Volumes,
	}, func(v *ec2.Volume) {
		w := c.Out
		w.Text("volumeId", v.ID)
		w.Int("size", v.Size)
		w.Text("availabilityZone", v.Zone)
		w.Text("availabilityZoneId", c.Region.ZoneID(v.Zone))
		w.Text("status", v.State)
		w.Text("volumeType", v.Type)
		w.Bool("encrypted", false)
		w.Bool("multiAttachEnabled", false)
		var attached []*ec2.Volume
		if v.InstanceID != "" {
			attached = append(attached, v)
		}
		query.List(w, "attachmentSet", attached, func(v *ec2.Volume) {
			w.Text("volumeId", v.ID)
			w.Text("instanceId", v.InstanceID)
			w.Text("device", v.Device)
			w.Text("status", "attached")
			w.Bool("deleteOnTermination", false)
		})
		c.writeTags(v.Tags)
	})
}
