// Command peer starts as the credential provider of cloud-provider-aws does: a cobra command with Kubernetes' logs, which reads the
// kubelet's request with the types and codecs of Kubernetes, makes the SDK's default configuration for the image's region, and has the SDK's clients for ECR, ECR
// Public and STS. bench-credential compares its start with that of isthmus-credential-provider.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
	"k8s.io/kubelet/pkg/apis/credentialprovider/install"
	v1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

func main() {
	logs.InitLogs()
	defer logs.FlushLogs()
	command := &cobra.Command{Use: "peer", Run: func(*cobra.Command, []string) {
		if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
			klog.ErrorS(err, "No credentials")
			os.Exit(1)
		}
	}}
	if err := command.Execute(); err != nil {
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	object, _, err := codecs.UniversalDecoder(v1.SchemeGroupVersion).Decode(data, nil, nil)
	if err != nil {
		return err
	}
	request, ok := object.(*v1.CredentialProviderRequest)
	if !ok {
		return fmt.Errorf("it is a %T", object)
	}
	host, _, _ := strings.Cut(request.Image, "/")
	password, err := token(ctx, strings.Split(host, "."))
	if err != nil {
		return err
	}
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	answer, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, v1.SchemeGroupVersion), &v1.CredentialProviderResponse{
		CacheKeyType: v1.RegistryPluginCacheKeyType, Auth: map[string]v1.AuthConfig{host: {Username: "AWS", Password: password}},
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(out, bytes.NewReader(answer))
	return err
}

// token gets a password for a registry, of whose host these are the labels.
func token(ctx context.Context, labels []string) (string, error) {
	if labels[0] == "public" {
		cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"))
		if err != nil {
			return "", err
		}
		if _, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}); err != nil {
			return "", err
		}
		out, err := ecrpublic.NewFromConfig(cfg).GetAuthorizationToken(ctx, &ecrpublic.GetAuthorizationTokenInput{})
		if err != nil {
			return "", err
		}
		return plain(*out.AuthorizationData.AuthorizationToken)
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(labels[3]))
	if err != nil {
		return "", err
	}
	out, err := ecr.NewFromConfig(cfg).GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		return "", err
	}
	return plain(*out.AuthorizationData[0].AuthorizationToken)
}

func plain(text string) (string, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	_, password, _ := strings.Cut(string(data), ":")
	return password, err
}
