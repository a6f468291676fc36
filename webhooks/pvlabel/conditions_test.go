package pvlabel_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

// kinds are PersistentVolumes of every kind of source, provisioning and labels, by name.
func kinds() map[string]*corev1.PersistentVolume {
	csi := func(driver, id string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: id}}
	}
	cinder := func(id string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: id}}
	}
	both := cinder("zonal")
	both.CSI = csi(csiDriver, "zonal").CSI
	sources := map[string]corev1.PersistentVolumeSource{
		"none": {}, "both": both,
		"cinder": cinder("zonal"), "cinder-placeholder": cinder(cloud.VolumePlaceholder), "cinder-empty": cinder(""),
		"csi": csi(csiDriver, "zonal"), "csi-placeholder": csi(csiDriver, cloud.VolumePlaceholder), "csi-empty": csi(csiDriver, ""),
		"csi-other": csi("nfs.csi.k8s.io", "zonal"), "csi-nobody": csi("", ""),
		"ebs":               {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "zonal"}},
		"gce":               {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "zonal"}},
		"gce-placeholder":   {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: cloud.VolumePlaceholder}},
		"azure":             {AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "zonal"}},
		"azure-placeholder": {AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: cloud.VolumePlaceholder}},
		"vsphere":           {VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "zonal"}},
		"host":              {HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		"nfs":               {NFS: &corev1.NFSVolumeSource{Server: "server", Path: "/"}},
	}
	annotations := map[string]map[string]string{
		"static": nil, "noted": {"note": "text"}, "dynamic": {"pv.kubernetes.io/provisioned-by": "somebody"}, "blank": {"pv.kubernetes.io/provisioned-by": ""},
	}
	labels := map[string]map[string]string{
		"bare": nil, "other": {"app": "db"},
		"zone":   {corev1.LabelTopologyZone: "az1"},
		"both":   {corev1.LabelTopologyZone: "az1", corev1.LabelTopologyRegion: "RegionOne"},
		"beta":   {corev1.LabelFailureDomainBetaZone: "az1", corev1.LabelFailureDomainBetaRegion: "RegionOne"},
		"halves": {corev1.LabelTopologyZone: "az1", corev1.LabelFailureDomainBetaRegion: "RegionOne"},
		"empty":  {corev1.LabelTopologyZone: "", corev1.LabelTopologyRegion: ""},
	}
	all := map[string]*corev1.PersistentVolume{}
	for s, source := range sources {
		for a, notes := range annotations {
			for l, set := range labels {
				pv := volume(fmt.Sprintf("%s.%s.%s", s, a, l), source)
				pv.Annotations, pv.Labels = maps.Clone(notes), maps.Clone(set)
				all[pv.Name] = pv
			}
		}
	}
	return all
}

// testConditions holds the match conditions, as the API server evaluates them, to what the
// webhook would do: what it does not get, it would have left alone; what it gets, it does
// something about.
func (c *cluster) testConditions(t *testing.T) {
	setPolicy := func(p admissionregistrationv1.FailurePolicyType) {
		c.edit(t, func(w *admissionregistrationv1.MutatingWebhook) { w.FailurePolicy = &p })
	}
	// With Fail, an expression that cannot be evaluated refuses; with Ignore it would look like false.
	setPolicy(admissionregistrationv1.Fail)
	defer setPolicy(admissionregistrationv1.Ignore)
	c.eventually(t, func(name string) bool {
		_, err := c.create(t, static(name, "zonal"))
		return err == nil
	}, "the policy is Fail")
	sent, all := 0, kinds()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), all[name], metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		_, was := c.sent.Load(name)
		if did := actedOn(t, all[name]); did != was {
			t.Errorf("%s: sent %v, the webhook does something %v (created: %v)", name, was, did, err)
		}
		if was {
			sent++
		}
	}
	if sent < 50 || sent > len(all)-50 {
		t.Errorf("%d of %d were sent: this test shows nothing", sent, len(all))
	}
}

// actedOn reports whether the webhook changes or refuses pv, or asks the cloud about it.
func actedOn(t *testing.T, pv *corev1.PersistentVolume) bool {
	t.Helper()
	raw, err := json.Marshal(pv)
	if err != nil {
		t.Fatal(err)
	}
	cloud := &volumes{}
	resp := pvlabel.New(cloud, admissionregistrationv1.Fail).Handle(t.Context(), createRequest(pv.Name, raw))
	return !resp.Allowed || len(resp.Patches) > 0 || len(resp.Warnings) > 0 || len(cloud.asked) > 0
}
