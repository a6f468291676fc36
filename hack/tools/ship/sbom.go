package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	organization = "isthmus-cloud"
	repository   = "https://github.com/isthmus-cloud/isthmus"
	none         = "NOASSERTION"
)

// noID are the characters that an SPDX identifier cannot have.
var noID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// sbom returns the SPDX document of the binary: what it is, and what is linked into it.
func (b *binary) sbom(created time.Time) ([]byte, error) {
	root := &spdx.Package{
		PackageName: b.name, PackageSPDXIdentifier: "Binary", PackageVersion: b.version, PackageFileName: b.name,
		PackageSupplier:         &common.Supplier{SupplierType: "Organization", Supplier: organization},
		PackageDownloadLocation: repository + "/releases",
		PackageChecksums:        []common.Checksum{{Algorithm: common.SHA256, Value: b.sha256}},
		PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0", PackageCopyrightText: none,
		PrimaryPackagePurpose: "APPLICATION",
	}
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      strings.Join([]string{b.name, b.version, b.goos, b.goarch}, "-"),
		DocumentNamespace: fmt.Sprintf("%s/spdx/%s-%s-%s-%s-%s", repository, b.name, b.version, b.goos, b.goarch, b.sha256),
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Organization", Creator: organization}},
			Created:  created.Format(time.RFC3339),
		},
		Packages:      []*spdx.Package{root},
		Relationships: []*spdx.Relationship{related("DOCUMENT", common.TypeRelationshipDescribe, root.PackageSPDXIdentifier)},
	}
	for _, m := range b.modules {
		p := m.spdx()
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, related(root.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, p.PackageSPDXIdentifier))
	}
	var out bytes.Buffer
	if err := spdxjson.Write(doc, &out, spdxjson.Indent(" ")); err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", b.name, err)
	}
	return out.Bytes(), nil
}

func related(from common.ElementID, how string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.MakeDocElementID("", string(from)), Relationship: how, RefB: common.MakeDocElementID("", string(to))}
}

func (m *module) spdx() *spdx.Package {
	licenses := strings.Join(m.licenses, " AND ")
	p := &spdx.Package{
		PackageName: m.path, PackageVersion: m.version,
		PackageSPDXIdentifier:   common.ElementID("Module-" + noID.ReplaceAllString(m.path, "-")),
		PackageDownloadLocation: none,
		PackageLicenseConcluded: licenses, PackageLicenseDeclared: licenses, PackageCopyrightText: none,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + m.path + "@" + m.version,
		}},
	}
	if m.sum != "" {
		p.PackageSourceInfo = "go.sum " + m.sum
	}
	return p
}
