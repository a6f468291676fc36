# The two images: --target cloud-controller-manager or isthmus-credential-provider.
#
#   docker build --target cloud-controller-manager --build-arg VERSION=v1.2.3 .
#
# compiles in a container. `make images` compiles outside, for all platforms, and gives what comes
# out, which is the same, in place of the stage `build`.

# What the binary is put on. It needs nothing: it is static, and the CA certificates come along.
ARG BASE=scratch
ARG GOLANG=golang:1.26

# Go compiles for every platform on this one.
FROM --platform=$BUILDPLATFORM ${GOLANG} AS build
WORKDIR /src
COPY . .
ARG TARGETARCH
ARG VERSION=dev
ARG SOURCE_DATE_EPOCH=0
RUN make image-files IMAGE_FILES=/ PLATFORMS=linux/${TARGETARCH} VERSION=${VERSION}

FROM ${BASE} AS cloud-controller-manager
ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title=cloud-controller-manager \
      org.opencontainers.image.description="The cloud's controllers of a Kubernetes cluster, and its admission webhooks" \
      org.opencontainers.image.source=https://github.com/isthmus-cloud/isthmus \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.revision=${REVISION}
COPY --from=build /${TARGETARCH}/cloud-controller-manager/ /
USER 65532:65532
ENTRYPOINT ["/cloud-controller-manager"]

FROM ${BASE} AS isthmus-credential-provider
ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title=isthmus-credential-provider \
      org.opencontainers.image.description="A kubelet image credential provider, which installs itself on nodes" \
      org.opencontainers.image.source=https://github.com/isthmus-cloud/isthmus \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.revision=${REVISION}
COPY --from=build /${TARGETARCH}/isthmus-credential-provider/ /
USER 65532:65532
ENTRYPOINT ["/isthmus-credential-provider"]
