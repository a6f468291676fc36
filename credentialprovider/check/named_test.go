package check

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// What the running kubelet has in its environment is read by its providers.
func TestInherited(t *testing.T) {
	got := inherited([]string{"PATH=/usr/bin:/bin", "HOME=/root", "AWS_CONFIG_FILE=/etc/aws", "AWS_REGION=eu-central-1", "SSL_CERT_DIR=/a:/b", "GOOGLE_APPLICATION_CREDENTIALS=rel", "OSTREE=/x"})
	if want := []string{"/root/.aws/config", "/root/.aws/credentials", "/root/.config/gcloud/application_default_credentials.json", "/root/.config/openstack/clouds.yaml", "/etc/aws", "/a", "/b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	dir := t.TempDir()
	deep := filepath.Join(dir, "deep")
	if err := os.WriteFile(deep, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(deep, 0o606); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "aws")
	if err := os.WriteFile(config, []byte("[default]\nweb_identity_token_file="+deep+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for pid, want := range map[int]bool{0: false, 1: true} {
		c := Check{environ: []string{"AWS_CONFIG_FILE=" + config}, kubelet: runningKubelet{pid: pid}, options: Options{KubeletConfig: dir, BinDir: dir}}
		c.trust([]kubelet.Entry{{Name: credentialprovider.Program}})
		if found := slices.ContainsFunc(c.findings, func(f kubelet.Finding) bool { return f.File == deep && f.Level == kubelet.Problem }); found != want {
			t.Errorf("kubelet %d: %+v", pid, c.findings)
		}
	}
}
