package main

// help is what --help prints.
const help = `isthmus-credential-provider gives the kubelet credentials for image registries. The kubelet
runs it: a CredentialProviderRequest comes in on stdin, a CredentialProviderResponse goes out
on stdout; on failure there is one line on stderr and the exit code is 1 (2 for wrong flags).

Which registries, by flags:
  --registries LIST     kinds of registries, separated by commas: ecr, acr,
                        artifactregistry, openstack
  --identity WHO        as whom the credentials are got: node (default), or serviceAccount for
                        the pod's service account, whose token the kubelet has to send; there is
                        no falling back from one to the other
  --cloud-config FILE   for openstack: cloud.conf with the login in [Global] and the registries
                        (default /etc/isthmus/credential-provider/cloud.conf);
                        alone it is --registries=openstack

or by a file:
  --config FILE         YAML, see below; in place of the three flags above

Flags:
  --timeout DURATION    give up after this time, at most 55s (default 30s)
  --v LEVEL             4 writes to stderr which fields of a request are not known and ignored (default 0)
  --version             print the version
  --help                print this text

The file of --config; a kind of registry is served if its section is there, and the first that
knows the image's registry answers, in this order:
  apiVersion: isthmus-cloud.github.io/v1
  kind: CredentialProviderOptions
  anonymousRegistries: [mirror.example.com]   # optional: pulled without credentials
  ecr:                                        # Amazon ECR and ECR Public; all keys are optional:
    identity: node                            # node or serviceAccount, as with --identity
    profile: pull                             # of the AWS config files
    stsRegion: eu-central-1                   # default: AWS_REGION, or else the registry's region
    accounts:                                 # roles to assume, by the account of the registry
      "123456789012": {roleARN: "arn:aws:iam::123456789012:role/pull", externalID: x, sourceARN: y}
    mirrors:                                  # images of upstream come through an ECR registry
    - {upstream: docker.io, registry: 123456789012.dkr.ecr.eu-central-1.amazonaws.com}
    roleARN: "…"                              # with serviceAccount: unless an annotation names one,
                                              # isthmus-cloud.github.io/ecr-role-arn
  acr:                                        # Azure Container Registry; all keys are optional:
    identity: node                            # the default is a managed identity: the system's, or
    clientID: 11111111-2222-3333-4444-555555555555    # this (or objectID:, resourceID:); or it is an
    tenantID: 66666666-7777-8888-9999-000000000000    # application's, with tenantID: and one of
    clientSecretFile: /etc/isthmus/credential-provider/secret   # clientSecretFile:, federatedTokenFile:,
                                              # clientCertificateFile: (clientCertificatePasswordFile:,
                                              # sendCertificateChain:); or, in place of all of these,
                                              # cloudConfig: /etc/kubernetes/azure.json
    cloud: AzurePublicCloud                   # default: the registry's; others: authorityHost: https://…
    audience: https://…                       # of Entra ID's tokens; default: container registries
    registries: [registry.example.com]        # login servers besides *.azurecr.io, .cn and .us
    mirrors: [{upstream: "mirror.example.com:5000", registry: contoso.azurecr.io}]
                                              # with serviceAccount, clientID and tenantID are for those
                                              # without isthmus-cloud.github.io/acr-client-id, -tenant-id
  artifactregistry:                           # gcr.io and pkg.dev; all keys are optional:
    identity: node
    credentialsFile: /etc/isthmus/credential-provider/gcp.json   # default:
                                              # GOOGLE_APPLICATION_CREDENTIALS, gcloud's
                                              # file, or else the metadata server
    instanceAccount: default                  # of the instance, at the metadata server
    impersonate: pull@project.iam.gserviceaccount.com   # to be this on top of the identity
    scope: devstorage.read_only               # or cloud-platform.read-only, cloud-platform
    mirrors: [{upstream: docker.io, registry: europe-docker.pkg.dev}]
    workloadIdentityProvider: "…"             # with serviceAccount, where its token is exchanged:
                                              # projects/1/locations/global/workloadIdentityPools/…;
                                              # an annotation names the account to impersonate,
                                              # isthmus-cloud.github.io/gcp-service-account
  openstack:                                  # the registries that cloud.conf names
    cloudConfig: /etc/isthmus/credential-provider/cloud.conf
    identity: node                            # with serviceAccount, [Global] has identity-provider
                                              # and protocol (Keystone's federation); the project is
                                              # its own, unless an annotation names one,
                                              # isthmus-cloud.github.io/openstack-project-id

Registries in cloud.conf:
  [Registry "keppel.example.com"]    # the registry asks Keystone: it gets the login of [Global]
  type = keppel

  [Registry "registry.local:5000"]   # the credentials are kept in Barbican
  type = barbican
  secret = registry-credentials      # reference, id or name; its payload is a dockerconfigjson
  cache-duration = 10m               # optional; default: the kubelet's configuration

In the kubelet's CredentialProviderConfig:
  providers:
  - name: isthmus-credential-provider
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages: ["keppel.example.com", "registry.local:5000"]
    defaultCacheDuration: 10m
    args: ["--registries=openstack"]   # cloud.conf is at its default

Try it:
  echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest",
  "image":"registry.local:5000/app"}' | isthmus-credential-provider --cloud-config FILE
`
