# The first stage installs from the hash-locked list; the image holds the result and nothing else: no shell, no pip.
#
#   make image, or: docker build -t sluice .
#   docker run --rm --network host --read-only --cap-drop ALL sluice run --upstream kafka-1:9092
#
# Sluice writes no file: it runs with a read-only root, without capabilities, as any user.
# The secrets are optional: `pip` is a pip.conf that names a registry of one's own, `ca` certificates that it uses.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH=0
# The same order of sets in every compiled module.
ENV PYTHONHASHSEED=0 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_CACHE_DIR=/var/cache/pip \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements/run.txt requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    --mount=type=cache,target=/var/cache/pip \
    python3 -m venv /opt/sluice \
 && /opt/sluice/bin/python -m pip install --no-compile --only-binary :all: --require-hashes -r requirements/run.txt
COPY . .
RUN /opt/sluice/bin/python -m pip install --no-compile --no-index --no-deps --no-build-isolation . \
 && /opt/sluice/bin/python -m pip uninstall --yes setuptools pip \
 && python3 .ci/root_filesystem /image

FROM scratch
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Sluice" \
      org.opencontainers.image.description="A Kafka-protocol sidecar proxy that enforces policies on every request" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
COPY --from=build /image /
ENV PATH=/opt/sluice/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUTF8=1
USER 65532:65532
WORKDIR /
# The bootstrap port and one port for each of the node ids 0 to 31; probes and metrics.
EXPOSE 19092-19124 9644
STOPSIGNAL SIGTERM
ENTRYPOINT ["sluice"]
CMD ["run"]
